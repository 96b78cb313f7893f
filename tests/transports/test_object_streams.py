"""Messages that are Python objects in a pair of anyio's memory streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from mcpkit import Context, Server
from mcpkit.transports.object_streams import serve_objects
from tests.helpers.pipe import stateless_meta
from tests.helpers.waiting import over, until

pytestmark = pytest.mark.anyio


@dataclass
class Item:
    """A message, in the wrapping of somebody's transport."""

    message: dict[str, Any]


class Peer:
    """The other ends of the streams of one client."""

    def __init__(self, server: Server) -> None:
        self.to_server, self.read = anyio.create_memory_object_stream[Item | Exception]()
        self.write, self.from_server = anyio.create_memory_object_stream[Item]()
        self.serving = asyncio.create_task(
            serve_objects(server, self.read, self.write, dump=lambda item: item.message, make=Item)
        )

    async def send(self, **message: Any) -> None:
        await self.to_server.send(Item({"jsonrpc": "2.0", **message}))

    async def next(self) -> dict[str, Any]:
        return (await self.from_server.receive()).message

    async def ask(self, method: str, id_: int = 1, **params: Any) -> dict[str, Any]:
        await self.send(id=id_, method=method, params=params)
        return await self.next()

    async def begin(self, **capabilities: Any) -> dict[str, Any]:
        answer = await self.ask(
            "initialize",
            0,
            protocolVersion="2025-11-25",
            capabilities=capabilities,
            clientInfo={"name": "objects", "version": "1"},
        )
        await self.send(method="notifications/initialized")
        return answer

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=name, arguments=arguments)


@asynccontextmanager
async def served(server: Server) -> AsyncIterator[Peer]:
    peer = Peer(server)
    try:
        yield peer
    finally:
        await peer.to_server.aclose()
        await peer.from_server.aclose()
        await asyncio.wait((peer.serving,))


class Lab:
    """A server, and what has happened to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_waiting = asyncio.Event()
        self.server = Server("lab", lifespan=self.lifespan)
        self.server.tool(self.add)
        self.server.tool(self.wait)
        self.server.tool(self.ask_name)
        self.server.tool(self.log)

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[None]:
        self.events.append("entered")
        yield
        await asyncio.sleep(0)
        self.events.append("left")

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def wait(self) -> None:
        self.is_waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.events.append("stopped")

    async def ask_name(self, ctx: Context) -> str:
        answer = await ctx.elicit("Which?", str)
        return str(answer)

    async def log(self, ctx: Context, times: int) -> None:
        for index in range(times):
            await ctx.log("info", f"{index}: " + "x" * 1000)
            self.events.append("logged")


@pytest.fixture
async def lab() -> Lab:
    return Lab()


async def test_session_is_served(lab: Lab) -> None:
    async with served(lab.server) as peer:
        assert (await peer.begin())["result"]["serverInfo"]["name"] == "lab"
        assert (await peer.call("add", a=1, b=2))["result"]["structuredContent"] == {"result": 3}
    assert lab.events == ["entered", "left"]


async def test_end_of_input_ends_running_calls(lab: Lab) -> None:
    async with served(lab.server) as peer:
        await peer.begin()
        await peer.send(id=7, method="tools/call", params={"name": "wait"})
        await lab.is_waiting.wait()
        await peer.to_server.aclose()
        answer = await peer.next()
        assert answer["id"] == 7
        assert "ended" in answer["error"]["message"]
        with pytest.raises(anyio.EndOfStream):
            await peer.next()
    assert lab.events == ["entered", "stopped", "left"]
    with pytest.raises(anyio.ClosedResourceError):
        peer.read.receive_nowait()
    with pytest.raises(anyio.ClosedResourceError):
        peer.write.send_nowait(Item({}))


def test_other_event_loop_is_rejected() -> None:
    serving = serve_objects(Server("elsewhere"), None, None, dump=dict, make=dict)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="an event loop of asyncio"):
        serving.send(None)


@pytest.mark.slow
async def test_input_is_not_read_while_output_is_not(lab: Lab) -> None:
    async with served(lab.server) as peer:
        await peer.begin()
        await peer.send(id=1, method="tools/call", params={"name": "log", "arguments": {"times": 5000}})
        await peer.send(id=2, method="ping")
        await until(lambda: len(lab.events) > 800)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert 800 < len(lab.events) < 1100
        with pytest.raises(anyio.WouldBlock):
            peer.to_server.send_nowait(Item({}))
        ids = {1, 2}
        while ids:
            ids.discard((await peer.next()).get("id", 0))
        assert lab.events.count("logged") == 5000


@pytest.mark.parametrize("how", ["task", "scope"])
async def test_cancelled_serving_waits_for_running_calls(lab: Lab, how: str) -> None:
    to_server, read = anyio.create_memory_object_stream[Item]()
    write, from_server = anyio.create_memory_object_stream[Item]()
    scope = anyio.CancelScope()

    async def serve() -> None:
        with scope:
            await serve_objects(lab.server, read, write, dump=lambda item: item.message, make=Item)

    serving = asyncio.create_task(serve())
    with to_server, from_server:
        await to_server.send(
            Item(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "wait", "_meta": stateless_meta("2026-07-28")},
                }
            )
        )
        await lab.is_waiting.wait()
        if how == "task":
            await over(serving)
        else:
            scope.cancel()
            await serving
        assert lab.events == ["entered", "stopped", "left"]
        with pytest.raises(anyio.EndOfStream):
            await from_server.receive()
