"""Sessions go on while the Redis that replicas share is away, and all heals when it is back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Redis, Server
from tests.helpers.engines import eventually
from tests.helpers.redis_server import RedisServer
from tests.helpers.replicas import CLIENT, Replica, call, request
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.slow


class Site:
    """Two replicas, and their Redis."""

    def __init__(self, redis: RedisServer, replicas: list[Replica]) -> None:
        self.redis = redis
        self.here, self.there = replicas

    def go_away(self, way: str) -> None:
        (self.redis.kill if way == "killed" else self.redis.pause)()

    def come_back(self, way: str) -> None:
        (self.redis.start if way == "killed" else self.redis.resume)()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        replicas: list[Replica] = []
        for name in ("one", "two"):
            shared = Redis(redis.url)
            stack.callback(shared.close)
            server = Server("away", version="1", secret="a secret of the replicas", shared=shared)

            @server.tool
            async def speak(ctx: Context) -> str:
                await ctx.log("info", "quietly")
                await ctx.log("error", "loudly")
                return "spoken"

            @server.tool
            async def plain() -> str:
                return "plain"

            @server.resource("thing://{name}")
            async def thing(name: str) -> str:
                return name

            @server.tool
            async def touch(uri: str, ctx: Context) -> str:
                ctx.server.resource_updated(uri)
                return uri

            url = stack.enter_context(in_thread(server.asgi(grace=1)))
            replicas.append(Replica(name, url))
            stack.callback(replicas[-1].http.close)
        yield Site(redis, replicas)


def said(replica: Replica, session: str) -> list[Any]:
    with replica.stream(call("speak"), session) as stream:
        return [each["params"]["data"] for each in stream.rest() if "method" in each]


@pytest.mark.parametrize("way", ["killed", "paused"])
def test_sessions_go_on_without_it(way: str, site: Site) -> None:
    here, there = site.here, site.there
    session = here.open()
    here.ask(session, "resources/subscribe", uri="thing://a")
    for replica in (here, there):
        for _ in range(3):
            assert replica.call(session, "plain") == "plain"
    with here.listen(session) as stream:
        stream.event()
        site.go_away(way)
        for replica in (here, there):
            for _ in range(5):
                assert replica.call(session, "plain") == "plain"
                assert said(replica, session) == ["quietly", "loudly"]
        here.call(session, "touch", uri="thing://a")
        assert stream.message()["params"]["uri"] == "thing://a"
        refused = there.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT})
        if refused.status_code == 503:
            assert int(refused.headers["retry-after"]) >= 1
        else:  # it took so long that the answer had become an event stream
            assert '"code":-32603' in refused.text
        assert here.ask(session, "logging/setLevel", level="error") == {}
        assert said(here, session) == ["loudly"]
        site.come_back(way)
        eventually(lambda: said(there, session) == ["loudly"])
        assert here.post(request("ping"), here.open()).status_code == 200
        there.ask(session, "resources/subscribe", uri="thing://b")
        there.call(session, "touch", uri="thing://b")
        while stream.message().get("params", {}).get("uri") != "thing://b":
            pass  # whatever may have been missed is told, too
    assert there.delete(session) == 204
    eventually(lambda: here.post(request("ping"), session).status_code == 404)
