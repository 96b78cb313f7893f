"""Requests that run, pipes that move to another server, and pages of lists (basic/utilities)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, Limits, Server
from mcpkit.protocol import jsonrpc
from mcpkit.transports import Connection
from tests.conformance.conftest import Wire
from tests.helpers.pipe import Pipe, settle

pytestmark = pytest.mark.anyio


class Stage:
    """What the handlers of the server wait for and tell."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.events: list[str] = []


@pytest.fixture
async def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    server = Server("s")

    @server.tool
    async def wait() -> str:
        stage.started.set()
        try:
            await stage.gate.wait()
        except asyncio.CancelledError:
            stage.events.append("cancelled")
            raise
        return "waited"

    @server.tool
    async def stubborn(ctx: Context) -> str:
        stage.started.set()
        try:
            await stage.gate.wait()
        except asyncio.CancelledError:
            with pytest.raises(RuntimeError, match="ended"):
                await ctx.report_progress(1)
            stage.events.append("swallowed")
        return "too late"

    @server.tool
    async def echo(text: str) -> str:
        stage.events.append(text)
        return text

    return server


async def test_duplicate_id_is_rejected_and_first_call_continues(
    server: Server, stage: Stage, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        pipe.send(pipe.message("x", "tools/call", {"name": "wait"}))
        pipe.send(pipe.message("x", "tools/call", {"name": "echo", "arguments": {"text": "second"}}))
        refusal = await pipe.receive()
        assert refusal["error"]["code"] == -32600
        assert refusal.get("id") is None
        stage.gate.set()
        answer = await pipe.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == ("x", "waited")
        assert stage.events == []


async def test_other_notification_with_request_id_cancels_nothing(
    server: Server, stage: Stage, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        id_ = pipe.start("tools/call", {"name": "wait"})
        await stage.started.wait()
        pipe.notify("notifications/com.example/read", {"requestId": id_})
        stage.gate.set()
        assert (await pipe.receive())["result"]["content"][0]["text"] == "waited"


@pytest.mark.parametrize(("tool", "events"), [("wait", "cancelled"), ("stubborn", "swallowed")])
async def test_cancelled_call_is_not_answered(
    tool: str, events: str, server: Server, stage: Stage, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        id_ = pipe.start("tools/call", {"name": tool})
        await stage.started.wait()
        pipe.cancel(id_)
        await pipe.quiet()
        assert stage.events == [events]
        assert server.engine.runtime.running.taken == 0


def make(name: str) -> Server:
    server = Server(name)

    def who() -> str:
        """Say who serves."""
        return name

    server.tool(who)
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


async def test_move_running_call_is_cancelled_on_its_server(server: Server, stage: Stage, wire: Wire) -> None:
    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "wait"})
        await stage.started.wait()
        async with moving(pipe.connection, make("after")) as move:
            await pipe.receive()  # the list of tools
            assert await pipe.text("who") == "after"
            pipe.send(pipe.message(id_, "tools/call", {"name": "who"}))
            assert (await pipe.receive())["error"]["code"] == -32600  # its id is in use
            assert not move.done()
            pipe.cancel(id_)
            await asyncio.wait_for(move, 10)
            assert stage.events == ["cancelled"]
            assert await pipe.text("who") == "after"
        await pipe.quiet()


LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def nothing() -> str:
    """Do nothing."""
    return ""


def item(name: str) -> str:
    """Do nothing with a name."""
    return name


def serve(names: str, page_size: int | None) -> Server:
    """Return a server with one of each kind for each letter of `names`."""
    server = Server("s", limits=Limits(page_size=page_size))
    for name in names:
        server.tool(nothing, name=name)
        server.prompt(nothing, name=name)
        server.resource(f"data://{name}", name=name)(nothing)
        server.resource(f"data://{name}/{{name}}", name=name)(item)
    return server


async def pages(pipe: Pipe, method: str) -> list[str]:
    """Return the names of each page as one string."""
    found, cursor = [], None
    while True:
        result = await pipe.result(method, {"cursor": cursor} if cursor else None)
        found.append("".join(entry["name"] for entry in result[LISTS[method]]))
        cursor = result.get("nextCursor")
        if cursor is None:
            return found


@pytest.mark.limit("page of a list")
async def test_lists_come_in_pages_in_order_of_registration(wire: Wire, revision: str) -> None:
    async with wire(serve("cabfe", 2), revision) as pipe:
        for method in LISTS:
            assert await pages(pipe, method) == ["ca", "bf", "e"], method
    for size, expected in ((None, ["abcd"]), (4, ["abcd"]), (3, ["abc", "d"]), (1, [*"abcd"])):
        async with wire(serve("abcd", size), revision) as pipe:
            assert await pages(pipe, "tools/list") == expected, size
    for size in (0, -1):
        with pytest.raises(ValueError, match="page_size"):
            Server("s", limits=Limits(page_size=size))


async def test_invalid_cursor_is_invalid_params_and_cursors_are_not_stored(wire: Wire) -> None:
    encoded = [base64.b64encode(text).decode() for text in (b"x:y", b"\xff:", b"-1:", b"9" * 5000 + b":")]
    server = serve("ab", 1)
    async with wire(server) as pipe:
        for cursor in ("", "x", "1", "???", "é", "MTI", "M!To=", *encoded, "\0", "A" * 100_000):
            for method in LISTS:
                error = await pipe.error(method, {"cursor": cursor})
                assert error["code"] == -32602, (method, cursor[:20])
        for number in range(300):
            cursor = base64.urlsafe_b64encode(f"{number}:".encode()).decode()
            await pipe.result("tools/list", {"cursor": cursor})
        assert len(server.engine.listing._pages) <= 256


async def test_cursor_after_changes_skips_nothing(wire: Wire) -> None:
    server = serve("abcdef", 2)
    async with wire(server) as pipe:
        first = await pipe.result("tools/list")
        server.catalog.tools.remove("a")
        server.catalog.tools.remove("b")  # the entry that the cursor names
        server.catalog.tools.remove("d")
        server.tool(nothing, name="g")
        second = await pipe.result("tools/list", {"cursor": first["nextCursor"]})
        assert [tool["name"] for tool in second["tools"]] == ["c", "e"]
        third = await pipe.result("tools/list", {"cursor": second["nextCursor"]})
        assert [tool["name"] for tool in third["tools"]] == ["f", "g"]
        assert "nextCursor" not in third
