"""A pipe whose client stays while another server takes over, and what is odd about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, RegistrationError, Server
from mcpkit.protocol import jsonrpc
from mcpkit.transports import Connection
from tests.conformance.conftest import Wire
from tests.helpers.pipe import settle

pytestmark = pytest.mark.anyio

CHANGED = "notifications/{}/list_changed"


class Gate:
    """A tool that ends when the test says so, and then says that a resource was updated."""

    def __init__(self, server: Server) -> None:
        self.begun, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.server = server
        server.tool(self.wait, name="wait")

    async def wait(self) -> str:
        self.begun.set()
        try:
            await self.go.wait()
        finally:
            self.stopped.set()
        self.server.resource_updated("data://x")
        return self.server.name


def make(name: str, *kinds: str) -> Server:
    server = Server(name)

    def who() -> str:
        """Say who serves."""
        return name

    server.tool(who)
    server.resource("data://x")(who)
    if "prompts" in kinds:
        server.prompt(who)
    return server


@asynccontextmanager
async def moving(connection: Connection, server: Server) -> AsyncIterator[asyncio.Task[None]]:
    """Run another server, and move to it."""
    async with server.running():
        task = asyncio.ensure_future(connection.move(server))
        await settle()
        yield task
        await asyncio.wait_for(task, 10)


def send(connection: Connection, message: dict[str, Any]) -> None:
    connection.receive(jsonrpc.encode({"jsonrpc": "2.0", **message}))


def shake_hands(connection: Connection, capabilities: dict[str, Any] | None = None) -> None:
    info = {"name": "t", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": info}
    send(connection, {"id": 1, "method": "initialize", "params": params})
    send(connection, {"method": "notifications/initialized"})


async def test_move_running_call_is_cancelled_on_its_server(wire: Wire) -> None:
    before = make("before")
    gate = Gate(before)
    async with wire(before) as pipe:
        id_ = pipe.start("tools/call", {"name": "wait"})
        await gate.begun.wait()
        async with moving(pipe.connection, make("after")) as move:
            await pipe.receive()  # the list of tools
            assert await pipe.text("who") == "after"
            pipe.send(pipe.message(id_, "tools/call", {"name": "who"}))
            assert (await pipe.receive())["error"]["code"] == -32600  # its id is in use
            assert not move.done()
            pipe.cancel(id_)
            await asyncio.wait_for(move, 10)
            assert gate.stopped.is_set()
            assert await pipe.text("who") == "after"
        await pipe.quiet()


async def test_move_keeps_pending_request_and_log_level() -> None:
    before, after = make("before"), make("after")

    @before.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).value

    @after.tool
    async def complain(ctx: Context) -> None:
        await ctx.log("info", "not heard")
        await ctx.log("error", "heard")

    lines: asyncio.Queue[Any] = asyncio.Queue()
    async with before.running():
        connection = Connection(before, lambda line: lines.put_nowait(jsonrpc.decode(line)))
        shake_hands(connection, {"elicitation": {}})
        send(connection, {"id": 2, "method": "logging/setLevel", "params": {"level": "error"}})
        send(connection, {"id": 3, "method": "tools/call", "params": {"name": "ask"}})
        question = [await lines.get() for _ in range(3)][-1]
        async with moving(connection, after):
            assert (await lines.get())["method"] == CHANGED.format("tools")
            send(
                connection,
                {"id": question["id"], "result": {"action": "accept", "content": {"value": "Ada"}}},
            )
            answered = await lines.get()
            assert (answered["id"], answered["result"]["content"][0]["text"]) == (3, "Ada")
        async with after.running():
            send(connection, {"id": 4, "method": "tools/call", "params": {"name": "complain"}})
            assert [(await lines.get()).get("params", {}).get("data") for _ in range(2)] == ["heard", None]
        await connection.aclose()


async def test_move_to_broken_server_is_rejected(wire: Wire) -> None:
    async with wire(make("before")) as pipe:
        after = Server("after")

        def broken(x: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821
            return ""

        after.tool(broken)
        with pytest.raises(RegistrationError):
            await pipe.connection.move(after)
        assert await pipe.text("who") == "before"
        await pipe.quiet()
