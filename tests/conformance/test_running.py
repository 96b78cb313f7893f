"""Requests that run, pipes that move to another server, and pages of lists (basic/utilities)."""

import asyncio
import base64

import pytest

from mcpkit import Context, Limits, Server
from tests.helpers.pipe import LISTS, Pipe, Wire
from tests.helpers.waiting import Work


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
def server(work: Work) -> Server:
    server = Server("s")

    @server.tool
    async def wait() -> str:
        await work.wait()
        return "waited"

    @server.tool
    async def stubborn(ctx: Context) -> str:
        try:
            await work.wait()
        except asyncio.CancelledError:
            with pytest.raises(RuntimeError, match="ended"):
                await ctx.report_progress(1)
        return "too late"

    server.tool(work.done.set, name="done")
    return server


async def test_duplicate_id_is_rejected_and_first_call_continues(server, work, wire, revision) -> None:
    async with wire(server, revision) as pipe:
        pipe.send(pipe.message("x", "tools/call", {"name": "wait"}))
        pipe.send(pipe.message("x", "tools/call", {"name": "done"}))
        refusal = await pipe.receive()
        assert refusal["error"]["code"] == -32600
        assert refusal.get("id") is None
        assert not work.done.is_set()
        pipe.notify("notifications/com.example/read", {"requestId": "x"})  # which cancels nothing
        work.gate.set()
        answer = await pipe.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == ("x", "waited")


@pytest.mark.parametrize("tool", ["wait", "stubborn"])
async def test_cancelled_call_is_not_answered(tool, server, work, wire, revision) -> None:
    async with wire(server, revision) as pipe:
        id_ = pipe.start("tools/call", {"name": tool})
        await work.started.wait()
        pipe.cancel(id_)
        await pipe.quiet()
        assert work.cancelled.is_set()
        assert server.engine.runtime.running.taken == 0


async def test_move_running_call_is_cancelled_on_its_server(server: Server, work: Work, wire: Wire) -> None:
    after = Server("after")
    after.tool(lambda: "after", name="who")
    async with wire(server) as pipe, after.running():
        id_ = pipe.start("tools/call", {"name": "wait"})
        await work.started.wait()
        move = asyncio.ensure_future(pipe.connection.move(after))
        await pipe.receive()  # the list of tools
        assert await pipe.text("who") == "after"
        pipe.send(pipe.message(id_, "tools/call", {"name": "who"}))
        assert (await pipe.receive())["error"]["code"] == -32600  # its id is in use
        assert not move.done()
        pipe.cancel(id_)
        await asyncio.wait_for(move, 10)
        assert work.cancelled.is_set()
        assert await pipe.text("who") == "after"
        await pipe.quiet()


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
