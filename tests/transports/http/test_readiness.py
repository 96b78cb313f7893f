"""Whether work may come here, as load balancers ask: at the start, at the end, and while the shared store is away."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Memory, Server, Sqlite
from mcpkit.common.errors import RegistrationError
from tests.helpers.asgi_client import Client, Serve, lifespan
from tests.helpers.clock import Clock
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

SECRET = "a secret of some length"
AWAY = {"status": "not ready", "reason": "the shared store does not answer"}
READY = {"status": "ready"}


class Weak(Memory):
    """An engine that goes away.

    Attributes:
        mode: `up`, `down` or `hanging`.
        asked: How many times it has been asked what readiness asks.
        gate: What is read has to pass it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mode = "up"
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, key: str) -> Mapping[str, str]:
        if key.endswith("/ready"):
            self.asked += 1
            await self.gate.wait()
            if self.mode == "down":
                raise ConnectionError("the engine is down")
            if self.mode == "hanging":
                await asyncio.Event().wait()
        return await super().read(key)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("mcpkit.transports.http.readiness.monotonic", clock)
    return clock


async def probe(client: Client, path: str = "/health") -> tuple[int | None, Any]:
    answer = await client.open("GET", path, headers={"host": "10.0.0.5:8000"}).whole()
    return answer.status, json.loads(answer.body)


@asynccontextmanager
async def served(serve: Serve, shared: Any) -> AsyncIterator[Client]:
    server = Server("s", shared=shared, secret=SECRET)
    server.tool(lambda: "plain", name="plain")
    async with serve(server, health="/health", live="/live") as client:
        yield client


@pytest.mark.parametrize("mode", ["down", "hanging"])
async def test_it_is_not_ready_while_the_store_is_away_and_again_when_it_is_back(
    mode: str,
    serve: Serve,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcpkit.transports.http.readiness._PATIENCE", 0.02)
    engine = Weak()
    async with served(serve, engine) as client:
        assert await probe(client) == (200, READY)
        engine.mode = mode
        clock.now += 1
        for _ in range(3):
            assert await probe(client) == (503, AWAY)
            clock.now += 1
        assert await probe(client, "/live") == (200, {"status": "live"})
        assert await probe(client, "/health?exclude=shared") == (200, READY)
        assert (await client.call("plain").whole()).status == 200
        engine.mode = "up"
        assert await probe(client) == (200, READY)
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    reason = "the engine is down" if mode == "down" else "it took longer than 0.01 seconds"
    assert said == [
        f"not ready: the shared store does not answer ({reason})",
        "ready again: the shared store answers",
    ]


@pytest.mark.limit("look whether the shared store answers")
async def test_probes_cost_one_look_a_second(serve: Serve, clock: Clock) -> None:
    engine = Weak()
    async with served(serve, engine) as client:
        for second in range(1, 4):
            engine.gate.clear()
            probes = [asyncio.create_task(probe(client)) for _ in range(20)]
            await until(lambda second=second: engine.asked == second)
            engine.gate.set()
            assert await asyncio.gather(*probes) == [(200, READY)] * 20
            clock.now += 0.5
            assert await probe(client) == (200, READY)
            assert engine.asked == second
            clock.now += 0.5


async def test_a_probe_that_goes_away_leaves_the_next_one_an_answer(serve: Serve, clock: Clock) -> None:
    engine = Weak()
    async with served(serve, engine) as client:
        engine.gate.clear()
        first = asyncio.create_task(client.app.door().routes._hindrance(True))  # type: ignore[attr-defined]
        await until(lambda: engine.asked)
        first.cancel()
        await asyncio.wait([first])
        engine.gate.set()
        assert await probe(client) == (200, READY)


@pytest.mark.slow
async def test_an_answer_that_does_not_come_is_not_waited_for_as_long_as_probes_are(serve: Serve) -> None:
    engine = Weak()
    engine.mode = "hanging"
    async with served(serve, engine) as client:
        began = time.monotonic()
        assert await probe(client) == (503, AWAY)
        assert time.monotonic() - began < 10  # an upper limit only


async def test_a_file_that_cannot_be_opened_is_away(tmp_path: Path, serve: Serve, clock: Clock) -> None:
    folder = tmp_path / "not there yet"
    with closing(Sqlite(folder / "shared.db")) as shared:
        async with served(serve, shared) as client:
            assert await probe(client) == (503, AWAY)
            folder.mkdir()
            clock.now += 1
            assert await probe(client) == (200, READY)


async def test_without_shared_no_store_is_asked(serve: Serve) -> None:
    async with serve(Server("s"), health="/health") as client:
        assert await probe(client) == (200, READY)


async def test_it_says_that_it_starts_and_that_it_ends(schema_dir: Path) -> None:
    entered, released = asyncio.Event(), asyncio.Event()
    running = asyncio.Event()

    @asynccontextmanager
    async def enter(_: Server) -> AsyncIterator[None]:
        await entered.wait()
        yield

    server = Server("s", lifespan=enter)

    @server.tool
    async def last() -> str:
        running.set()
        await released.wait()
        return "done"

    app = server.asgi(health="/health", live="/live")
    client = Client(app, schema_dir)
    ending = asyncio.Event()

    async def serve() -> None:
        async with lifespan(app):
            await ending.wait()

    served = asyncio.create_task(serve())
    assert await probe(client) == (503, {"status": "not ready", "reason": "starting"})
    assert await probe(client, "/live") == (200, {"status": "live"})
    entered.set()
    await server.ready()
    call = client.call("last")
    await running.wait()
    assert await probe(client) == (200, READY)
    ending.set()
    while (answer := await probe(client)) == (200, READY):
        pass
    assert answer == (503, {"status": "not ready", "reason": "shutting down"})
    assert await probe(client, "/live") == (200, {"status": "live"})
    released.set()
    assert (await call.whole()).status == 200
    await served


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"live": "/mcp"}, r"live='/mcp' would never be reached, as path='/mcp' serves that path"),
        ({"health": "/a", "live": "/a/"}, r"live='/a/' would never be reached, as health='/a' serves"),
        ({"live": "live"}, "live must begin with a slash"),
    ],
)
def test_paths_that_are_taken_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Server("s").asgi(**options)  # type: ignore[arg-type]


def test_a_route_of_ones_own_does_not_take_the_path_of_life() -> None:
    server = Server("s")

    @server.route("/live")
    async def live(request: Any) -> None: ...

    with pytest.raises(RegistrationError, match=r"would never be reached, as server.asgi\(live='/live'\)"):
        server.asgi(live="/live")
