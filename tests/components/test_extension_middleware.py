"""What an extension wraps: the calls of the servers that it is attached to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import Context, Extension, ProtocolError, RegistrationError, Server, ToolError
from mcpkit.middleware import CallNext, CallTool, Detached, Request, Result, ToolCall, ToolCallResult
from mcpkit.middlewares import SizeLimit, Timed, Timing
from mcpkit.testing import connect
from tests.helpers.mailbox import Mailbox

pytestmark = pytest.mark.anyio

ID = "com.example/thing"
KNOWS = {"extensions": {ID: {}}}
EVERY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def make_wrapper() -> Extension:
    """An extension that puts tickets in the place of results."""
    thing = Extension(ID)

    @thing.middleware("tools/call")
    async def wrap(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
        if call.name == "slow" and thing.is_supported(call.ctx):
            return thing.result(call.ctx, "ticket", {"id": "1"})
        return await call_next(call)

    return thing


def make_server() -> Server:
    server = Server("s")

    @server.tool
    async def slow() -> int:
        return 1

    @server.tool
    async def quick() -> int:
        return 2

    return server


async def test_a_call_is_answered_with_a_result_of_another_type() -> None:
    server = make_server()
    server.include(make_wrapper())
    async with connect(server, capabilities=KNOWS) as client:
        ticket = await client.call("slow")
        assert ticket.data == {
            "resultType": "ticket",
            "id": "1",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0.0.0"}},
        }
        assert (await client.call("quick")).structured == 2


@pytest.mark.parametrize("revision", EVERY)
async def test_everybody_else_gets_the_result_of_the_tool(revision: str) -> None:
    server = make_server()
    server.include(make_wrapper())
    async with connect(server, revision=revision) as client:
        assert (await client.call("slow")).text == "1"


async def test_it_lies_within_the_middleware_of_the_server_whatever_came_first() -> None:
    server = make_server()
    thing = server.extension(ID)
    order: list[str] = []

    def note(name: str) -> Any:
        async def noting(request: Request, call_next: CallNext) -> Result:
            order.append(name)
            return await call_next(request)

        return noting

    thing.middleware(note("first of the extension"))
    server.middleware(note("the server's"))
    thing.middleware("tools/call")(note("second of the extension"))
    other = server.extension("com.example/other")
    other.middleware(note("another's"))
    async with connect(server) as client:
        order.clear()
        await client.call("quick")
    assert order == ["the server's", "first of the extension", "second of the extension", "another's"]


async def test_one_that_is_included_twice_wraps_once() -> None:
    thing = Extension(ID)
    seen: list[str] = []

    @thing.middleware("tools/call")
    async def count(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        seen.append(call.name)
        return await call_next(call)

    outer = Server("outer")
    for name in ("one", "other"):
        inner = make_server()
        inner.include(thing)
        outer.include(inner, prefix=name)
    async with connect(outer) as client:
        await client.call("one_quick")
    assert seen == ["one_quick"]


async def test_one_extension_serves_two_servers() -> None:
    thing = make_wrapper()
    for server in (make_server(), make_server()):
        server.include(thing)
        async with connect(server, capabilities=KNOWS) as client:
            assert (await client.call("slow")).type == "ticket"


async def test_the_middleware_around_it_sees_a_result_without_content() -> None:
    server = make_server()
    server.include(make_wrapper())
    seen: list[Any] = []
    timed: list[Timed] = []
    server.middleware(Timing(timed.append))
    server.middleware(SizeLimit(10_000))

    @server.middleware("tools/call")
    async def look(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(call)
        seen.append((result.type, result.content, result.text, result.structured, result.is_error))
        return result

    async with connect(server, capabilities=KNOWS) as client:
        assert (await client.call("slow")).type == "ticket"
        await client.call("quick")
    assert seen == [
        ("ticket", [], "", None, False),
        ("complete", [{"type": "text", "text": "2"}], "2", 2, False),
    ]
    assert [each.outcome for each in timed] == ["ok"] * 3


async def test_what_it_raises_is_what_the_tool_would_have_raised() -> None:
    server = make_server()
    thing = server.extension(ID)

    @thing.middleware("tools/call")
    async def refuse(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        if call.name == "slow":
            call.ctx.client.require(thing.capability)
        raise ToolError("closed")

    async with connect(server) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.call("slow")
        assert raised.value.code == -32021
        assert (await client.call("quick")).text == "closed"


async def test_its_own_methods_can_be_wrapped() -> None:
    server = Server("s")
    thing = server.extension(ID)

    @thing.method("thing/do")
    async def do() -> dict[str, int]:
        return {"value": 1}

    @thing.middleware("thing/do")
    async def more(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        result["value"] += 1
        return result

    @server.middleware("thing/do")
    async def still_more(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        result["value"] *= 10
        return result

    async with connect(server, capabilities=KNOWS) as client:
        assert (await client.request("thing/do"))["value"] == 20


def test_a_method_that_there_is_not_cannot_be_wrapped() -> None:
    server = Server("s")
    thing = server.extension(ID)
    with pytest.raises(RegistrationError, match=r"no middleware can wrap 'thing/do'; there are .*tools/call"):
        thing.middleware("thing/do")
    with pytest.raises(RegistrationError, match="no middleware can wrap 'ping'"):
        server.middleware("ping")


# Notifications


@pytest.mark.parametrize("revision", EVERY)
async def test_it_sends_notifications_of_its_own_with_a_request(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.notify("notifications/thing/begun", {"id": "1"})
        await ctx.notify("notifications/thing")
        return "done"

    @server.tool
    def tell_from_thread(ctx: Context) -> str:
        ctx.sync.notify("notifications/thing/begun", {"id": "2"})
        return "done"

    async with connect(server, revision=revision) as client:
        await client.call("tell")
        assert await client.notification("notifications/thing/begun") == {"id": "1"}
        assert client.notifications == [{"jsonrpc": "2.0", "method": "notifications/thing"}]
        await client.call("tell_from_thread")
        assert await client.notification("notifications/thing/begun") == {"id": "2"}


@pytest.mark.parametrize(
    ("method", "params", "error"),
    [
        ("notifications/progress", {}, ValueError),
        ("notifications/cancelled", {}, ValueError),
        ("notifications/tools/list_changed", None, ValueError),
        ("thing/begun", {}, ValueError),
        ("", {}, ValueError),
        ("notifications/thing", {"value": object()}, ValueError),
        ("notifications/thing", {"value": "\ud800"}, ValueError),
    ],
)
async def test_other_notifications_are_refused(method: str, params: Any, error: type[Exception]) -> None:
    server = Server("s")

    @server.tool
    async def tell(ctx: Context) -> str:
        with pytest.raises(error):
            await ctx.notify(method, params)
        return "refused"

    async with connect(server) as client:
        assert (await client.call("tell")).text == "refused"
        assert client.notifications == []


async def test_nothing_is_sent_after_the_end_of_the_call() -> None:
    server = Server("s")
    kept: list[Context] = []

    @server.tool
    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "kept"

    async with connect(server) as client:
        await client.call("keep")
        with pytest.raises(RuntimeError, match="has ended"):
            await kept[0].notify("notifications/thing")
        assert client.notifications == []


# What goes on after the answer


async def test_a_call_may_go_on_after_its_answer_with_a_context_of_its_own() -> None:
    """What tasks are built on: the client has its answer, and the tool still runs and reports."""
    server = Server("s")
    thing = server.extension(ID)
    may_end = asyncio.Event()
    running: list[Detached] = []
    mailboxes: list[Mailbox] = []

    @thing.middleware("tools/call")
    async def later(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
        mailboxes.append(Mailbox(call))
        running.append(call.detach(call_next, mailboxes[-1]))
        return thing.result(call.ctx, "task", {"taskId": str(len(running)), "status": "working"})

    @server.tool
    async def bake(bread: str, ctx: Context) -> str:
        await may_end.wait()
        await ctx.notify("notifications/thing/baked", {"bread": bread})
        return f"baked {bread}"

    @server.tool
    def fail(ctx: Context) -> str:
        ctx.sync.notify("notifications/thing/failing")
        raise ToolError("burnt")

    @thing.method("jobs/get", named_by="taskId")
    async def get(taskId: str) -> dict[str, Any]:
        return {"taskId": taskId, "status": "completed", "result": await running[int(taskId) - 1].result()}

    async with connect(server, capabilities=KNOWS) as client:
        task = await client.call("bake", {"bread": "rye"})
        assert (task.type, task.data["taskId"]) == ("task", "1")
        may_end.set()
        done = await client.request("jobs/get", {"taskId": "1"})
        assert (done["resultType"], done["result"]["content"][0]["text"]) == ("complete", "baked rye")
        assert client.notifications == []
        assert [message["method"] for message in mailboxes[0].messages] == ["notifications/thing/baked"]
        await client.call("fail")
        failed = await client.request("jobs/get", {"taskId": "2"})
        assert (failed["result"]["isError"], failed["result"]["content"][0]["text"]) == (True, "burnt")
