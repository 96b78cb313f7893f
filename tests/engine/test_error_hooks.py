"""Error hooks: the exceptions that they receive, errors that they replace, and hooks that fail."""

import asyncio
from typing import Any

import pytest

from mcpkit import PromptError, ProtocolError, RegistrationError, Server, ToolError
from mcpkit.exceptions import CallTimeoutError, ResourceNotFoundError
from mcpkit.extensions import ErrorEvent
from mcpkit.middleware import CallTool, ToolCall, ToolCallResult
from mcpkit.testing import connect
from tests.helpers.servers.middleware import CALLS, BrokenError, error_text, make_failing_server
from tests.helpers.tables import each_row
from tests.helpers.waiting import Work, over


def events_of(server: Server) -> list[ErrorEvent]:
    """Return the list that the events of a server are appended to."""
    events: list[ErrorEvent] = []
    server.on_error(events.append)
    return events


@each_row("call", CALLS.values())
async def test_error_hook_receives_unexpected_exceptions(call, revision, caplog) -> None:
    error = BrokenError("secret")
    server = make_failing_server(error)
    events = events_of(server)
    async with connect(server, protocol_version=revision) as client:
        text = await error_text(client, call)
    (event,) = events
    assert (event.exception, event.ctx.server) == (error, server)
    assert text == f"Internal error (ref {event.ref})"
    assert f"(ref {event.ref})" in caplog.text


@each_row("call", CALLS.values())
@each_row("error", [ToolError("no"), PromptError("no"), ResourceNotFoundError("a:b"), ProtocolError(7, "no")])
async def test_error_hook_does_not_receive_deliberate_errors(call: Any, error: Exception) -> None:
    server = make_failing_server(error)
    events = events_of(server)
    async with connect(server) as client:
        await error_text(client, call)
    assert events == []


async def test_error_hook_does_not_receive_wrong_arguments_unknown_tools_and_cancellation() -> None:
    server, work = Server("s"), Work()
    events = events_of(server)
    server.tool(work.wait)

    async with connect(server) as client:
        assert (await client.call_tool("wait", {"to": "x"})).is_error
        with pytest.raises(ProtocolError):
            await client.call_tool("none")
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await work.cancelled.wait()
    assert events == []


async def test_error_hook_receives_timeouts_without_a_reference() -> None:
    server = Server("s", timeouts=0.01)
    events = events_of(server)
    server.tool(Work().wait, name="tool")
    async with connect(server) as client:
        assert await error_text(client, CALLS["tool"]) == "timed out after 0.01 s"
    assert [(type(event.exception), event.ref) for event in events] == [(CallTimeoutError, None)]


@each_row("call", CALLS.values())
async def test_error_hook_may_replace_the_error(call, revision, caplog) -> None:
    server = make_failing_server(BrokenError("secret"))

    @server.on_error
    def explain(event: ErrorEvent) -> ToolError | None:
        return ToolError("the station is down") if isinstance(event.exception, BrokenError) else None

    events = events_of(server)
    async with connect(server, protocol_version=revision) as client:
        assert await error_text(client, call) == "the station is down"
    assert events == []  # later hooks see a deliberate error
    assert caplog.records == []


@each_row("raised", [ValueError("hook"), SystemExit(3), asyncio.CancelledError(), "returned"])
@each_row("call", CALLS.values())
async def test_failing_error_hook_leaves_the_response_unchanged(call, raised, caplog) -> None:
    caplog.clear()
    server = make_failing_server(BrokenError())

    @server.on_error
    def fail(event: ErrorEvent) -> Any:
        if isinstance(raised, str):
            return raised
        raise raised

    events = events_of(server)
    async with connect(server) as client:
        text = await error_text(client, call)
        assert (await client.list_tools())[0]["name"] == "tool"
    assert text == f"Internal error (ref {events[0].ref})"
    first, second = (record.getMessage() for record in caplog.records[:2])
    assert "the error hook" in first
    assert f"ref {events[0].ref}" in second


async def test_error_hook_of_the_serving_server_receives_middleware_exceptions() -> None:
    inner, outer = Server("inner"), Server("outer")
    inner.tool(name="tool")(lambda: "fine")
    outer.include(inner)
    inner_events, outer_events = events_of(inner), events_of(outer)

    @outer.middleware("tools/call")
    async def broken(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        await call_next(call)
        raise BrokenError

    async with connect(outer) as client:
        await error_text(client, CALLS["tool"])
    assert [(type(event.exception), event.ctx.server) for event in outer_events] == [(BrokenError, outer)]
    assert inner_events == []


@each_row("hook", [None, 3, lambda: None, asyncio.sleep])
def test_error_hook_wrong_function_is_refused(hook: Any) -> None:
    with pytest.raises(RegistrationError, match="on_error"):
        Server("s").on_error(hook)
