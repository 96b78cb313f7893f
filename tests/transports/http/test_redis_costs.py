"""What requests cost at a Redis that processes share, as Redis itself counts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcpkit import Redis, Server
from mcpkit.testing import connect
from tests.helpers.engines import eventually
from tests.helpers.redis_server import RedisServer
from tests.helpers.task_client import KNOWS_TASKS, begin, look
from tests.helpers.waiting import until

HEADERS = {"Accept": "application/json, text/event-stream"}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
SECRET = "a secret of sixteen bytes and more"
TIMES = 20

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Counted:
    """A server over HTTP, and the Redis that it has.

    Args:
        http: Its client.
        redis: The Redis, where nobody else is.
    """

    def __init__(self, http: TestClient, redis: RedisServer) -> None:
        self.http = http
        self.redis = redis
        self.headers: dict[str, str] = {}

    def send(self, method: str, params: Any, **headers: str) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.http.post("/mcp", json=message, headers={**self.headers, **headers})

    def open(self) -> None:
        answer = self.send("initialize", CLIENT)
        self.headers = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.http.post("/mcp", json=message, headers=self.headers).status_code == 202

    def trips(self) -> dict[str, int]:
        """Return what clients have sent so far: what scripts run, and the one that reads messages, are left out."""
        sent = ("evalsha", "eval", "hgetall", "hmget", "scan")
        return {name: self.redis.calls().get(name, 0) for name in sent}


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    monkeypatch.setattr("mcpkit.state.presence.BEAT", 3600.0)  # what processes say of themselves is no call's
    with (
        RedisServer(tmp_path / "redis") as redis,
        closing(Redis(redis.url)) as shared,
    ):
        server = Server("notes", version="1", secret=SECRET, shared=shared)

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b

        with TestClient(server.asgi(), "http://localhost", headers=HEADERS) as http:
            eventually(
                lambda: redis.calls().get("zrangebylex")
            )  # whether there are records that nobody can read
            yield Counted(http, redis)


def test_a_call_without_a_session_makes_no_round_trip(counted: Counted) -> None:
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "add"}
    assert counted.send("tools/call", params, **headers).json()["result"]["structuredContent"]
    before = counted.trips()
    for _ in range(TIMES):
        assert counted.send("tools/call", params, **headers).status_code == 200
    assert counted.trips() == before


@pytest.mark.slow
def test_a_call_in_a_session_makes_no_round_trip(counted: Counted) -> None:
    """The process makes some a second, however many sessions and calls there are; see `Freshness`."""
    counted.open()
    params = {"name": "add", "arguments": {"a": 1, "b": 2}}
    assert counted.send("tools/call", params).json()["result"]["structuredContent"]
    before = sum(counted.trips().values())
    for _ in range(10 * TIMES):
        assert counted.send("tools/call", params).status_code == 200
    assert sum(counted.trips().values()) - before <= TIMES


async def test_a_task_is_made_by_one_round_trip_and_looked_at_by_one(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as redis, closing(Redis(redis.url)) as shared:
        server = Server("lab", version="1", secret=SECRET, shared=shared, tasks="workers")

        @server.tool(task=True)
        async def train(data: str) -> str:
            return data

        def sent() -> Counter[str]:
            return Counter({name: redis.calls().get(name, 0) for name in ("eval", "evalsha", "hmget")})

        async with connect(server, capabilities=KNOWS_TASKS) as client:
            task = await begin(client, "train", {"data": "the first"})  # Redis knows the scripts then
            await until(
                lambda: redis.calls().get("zrangebylex")
            )  # whether there are records that nobody can read
            before = sent()
            for number in range(TIMES):
                task = await begin(client, "train", {"data": f"number {number}"})
            made = sent()
            assert made - before == Counter(evalsha=TIMES)
            for _ in range(TIMES):
                assert (await look(client, task))["status"] == "working"
            assert sent() - made == Counter(hmget=TIMES)
