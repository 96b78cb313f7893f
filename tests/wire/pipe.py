"""The raw client of the wire tests: whole messages in, whole messages out, each one judged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import Server
from mcpkit.connection import Connection
from wire.official import Official

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
REVISIONS = HANDSHAKE + STATELESS

META = "io.modelcontextprotocol/"


def stateless_meta(revision: str = "2026-07-28", **more: Any) -> dict[str, Any]:
    return {
        META + "protocolVersion": revision,
        META + "clientInfo": {"name": "wire", "version": "1"},
        META + "clientCapabilities": {},
        **more,
    }


class Pipe:
    """Speaks to a server through a `Connection`, one JSON message at a time."""

    def __init__(self, server: Server, revision: str, official: Official) -> None:
        self.revision = revision
        self.official = official
        self.out: asyncio.Queue[Any] = asyncio.Queue()
        self.methods: dict[Any, str] = {}
        self.connection = Connection(server, self._judge)
        self.ids = 0

    def _judge(self, line: bytes) -> None:
        assert b"\n" not in line
        message = json.loads(line)
        for each in message if isinstance(message, list) else [message]:
            if "method" in each:
                self.official.notification(each)
            else:
                method = self.methods.get(each.get("id"), "ping")
                self.official.result(method, each)
        self.out.put_nowait(message)

    def send(self, message: Any) -> None:
        """Send any JSON value, or bytes as they are."""
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict) and isinstance(each.get("id"), str | int) and isinstance(each.get("method"), str):
                self.methods[each["id"]] = each["method"]
        self.connection.receive(message if isinstance(message, bytes) else json.dumps(message).encode())

    def start(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        """Send a request of this pipe's revision and return its id."""
        self.ids += 1
        params = dict(params or {})
        if self.revision in STATELESS:
            params["_meta"] = {**stateless_meta(self.revision), **meta}
        elif meta:
            params["_meta"] = meta
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self.ids, "method": method}
        if params:
            message["params"] = params
        self.send(message)
        return self.ids

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    async def receive(self) -> Any:
        """Return the next message; a silence of ten seconds is a failure."""
        return await asyncio.wait_for(self.out.get(), 10)

    async def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and return the response, skipping notifications."""
        id_ = self.start(method, params, **meta)
        while True:
            message = await self.receive()
            if message.get("id") == id_:
                return message

    async def result(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        message = await self.request(method, params, **meta)
        assert "result" in message, message
        return message["result"]

    async def error(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and return its error."""
        message = await self.request(method, params, **meta)
        assert "error" in message, message
        return message["error"]

    async def quiet(self) -> None:
        """Assert that nothing more has been sent, once the server has had the time to."""
        await self.connection.drain()
        for _ in range(5):
            await asyncio.sleep(0)
        assert self.out.empty(), self.out.get_nowait()

    async def initialize(self, **params: Any) -> dict[str, Any]:
        """Open a session of this pipe's revision."""
        default = {
            "protocolVersion": self.revision,
            "capabilities": {},
            "clientInfo": {"name": "wire", "version": "1"},
        }
        result = await self.result("initialize", default | params)
        self.notify("notifications/initialized")
        return result


@asynccontextmanager
async def open_pipe(
    server: Server, revision: str, folder: Path, *, initialize: bool = True
) -> AsyncIterator[Pipe]:
    """Connect a pipe; in the handshake era with its session open."""
    async with server.running():
        pipe = Pipe(server, revision, Official(folder, revision))
        try:
            if initialize and revision in HANDSHAKE:
                await pipe.initialize()
            yield pipe
        finally:
            await pipe.connection.aclose()
