"""What requests cost at a Redis that processes share, as Redis itself counts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcpkit import Redis, Server
from redis_server import RedisServer

HEADERS = {"Accept": "application/json, text/event-stream"}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
TIMES = 20


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
def counted(tmp_path: Path) -> Iterator[Counted]:
    with (
        RedisServer(tmp_path / "redis") as redis,
        closing(Redis(redis.url)) as shared,
    ):
        server = Server("notes", version="1", secret="a secret of sixteen bytes and more", shared=shared)

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b

        with TestClient(server.asgi(), "http://localhost", headers=HEADERS) as http:
            yield Counted(http, redis)


def test_a_call_without_a_session_makes_no_round_trip(counted: Counted) -> None:
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "add"}
    assert counted.send("tools/call", params, **headers).json()["result"]["structuredContent"]
    before = counted.trips()
    for _ in range(TIMES):
        assert counted.send("tools/call", params, **headers).status_code == 200
    assert counted.trips() == before


def test_a_call_in_a_session_reads_its_record_once(counted: Counted) -> None:
    counted.open()
    params = {"name": "add", "arguments": {"a": 1, "b": 2}}
    assert counted.send("tools/call", params).json()["result"]["structuredContent"]
    before = counted.trips()
    for _ in range(TIMES):
        assert counted.send("tools/call", params).status_code == 200
    after = counted.trips()
    assert after == {**before, "hgetall": before["hgetall"] + TIMES}
