"""The author's functions and middleware see the exception behind an error, and cannot break its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcpkit import PromptError, ProtocolError, RegistrationError, Server, ToolError
from mcpkit.exceptions import CallTimeoutError, ResourceNotFoundError
from mcpkit.extensions import ErrorEvent
from mcpkit.middleware import CallTool, ToolCall, ToolCallResult
from mcpkit.testing import TestClient, connect
from tests.helpers.servers.middleware import (
    CALLS,
    REVISIONS,
    BrokenError,
    error_text,
    make_failing_server,
)
from tests.helpers.waiting import Work, over

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_error_hook_receives_unexpected_exceptions(
    call: Callable[[TestClient], Awaitable[Any]], revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = BrokenError("secret")
    server = make_failing_server(error)
    failures: list[ErrorEvent] = []
    server.on_error(failures.append)
    async with connect(server, protocol_version=revision) as client:
        text = await error_text(client, call)
    (failure,) = failures
    assert failure.exception is error
    assert failure.ctx.server is server
    assert text == f"Internal error (ref {failure.ref})"
    assert f"(ref {failure.ref})" in caplog.text


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "error", [ToolError("no"), PromptError("no"), ResourceNotFoundError("a:b"), ProtocolError(7, "no")]
)
async def test_error_hook_does_not_receive_deliberate_errors(
    call: Callable[[TestClient], Awaitable[Any]], error: Exception
) -> None:
    server = make_failing_server(error)
    failures: list[ErrorEvent] = []
    server.on_error(failures.append)
    async with connect(server) as client:
        await error_text(client, call)
    assert failures == []


async def test_nor_of_wrong_arguments_unknown_tools_and_cancelled_calls() -> None:
    server = Server("s")
    failures: list[ErrorEvent] = []
    server.on_error(failures.append)
    work = Work()
    server.tool(work.wait)

    @server.tool
    async def count(to: int) -> int:
        return to

    async with connect(server) as client:
        assert (await client.call_tool("count", {"to": "x"})).is_error
        with pytest.raises(ProtocolError):
            await client.call_tool("none")
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await client.call_tool("count", {"to": 1})
    assert failures == []


@pytest.mark.parametrize("revision", REVISIONS)
async def test_error_hook_receives_timeouts_without_a_reference(revision: str) -> None:
    server = Server("s", timeouts=0.01)
    failures: list[ErrorEvent] = []
    server.on_error(failures.append)

    @server.tool
    async def tool() -> str:
        await asyncio.Event().wait()
        return ""

    async with connect(server, protocol_version=revision) as client:
        assert await error_text(client, CALLS["tool"]) == "timed out after 0.01 s"
    assert [(type(failure.exception), failure.ref) for failure in failures] == [(CallTimeoutError, None)]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_error_hook_may_replace_the_error(
    call: Callable[[TestClient], Awaitable[Any]], revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_failing_server(BrokenError("secret"))
    later: list[ErrorEvent] = []

    @server.on_error
    def explain(failure: ErrorEvent) -> ToolError | None:
        return ToolError("the station is down") if isinstance(failure.exception, BrokenError) else None

    server.on_error(later.append)
    async with connect(server, protocol_version=revision) as client:
        assert await error_text(client, call) == "the station is down"
    assert later == []  # to whoever comes after, it is what the author has said
    assert caplog.records == []


@pytest.mark.parametrize("raised", [ValueError("hook"), SystemExit(3), asyncio.CancelledError(), "returned"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_failing_error_hook_leaves_the_response_unchanged(
    call: Callable[[TestClient], Awaitable[Any]],
    raised: BaseException | str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make_failing_server(BrokenError())
    heard: list[ErrorEvent] = []

    @server.on_error
    def fail(failure: ErrorEvent) -> Any:
        if isinstance(raised, str):
            return raised
        raise raised

    server.on_error(heard.append)
    async with connect(server) as client:
        text = await error_text(client, call)
        assert (await client.list_tools())[0]["name"] == "tool"
    assert text == f"Internal error (ref {heard[0].ref})"
    assert "the error hook" in caplog.records[0].getMessage()
    assert "fail" in caplog.records[0].getMessage()
    assert f"ref {heard[0].ref}" in caplog.records[1].getMessage()


async def test_error_hook_receives_middleware_exceptions(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    failures: list[ErrorEvent] = []
    server.on_error(failures.append)

    @server.tool
    async def tool() -> str:
        return "fine"

    @server.middleware("tools/call")
    async def broken(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        await call_next(call)
        raise BrokenError

    async with connect(server) as client:
        await error_text(client, CALLS["tool"])
    assert [type(failure.exception) for failure in failures] == [BrokenError]


async def test_error_hook_of_the_serving_server_is_called(caplog: pytest.LogCaptureFixture) -> None:
    inner, outer = make_failing_server(BrokenError()), Server("outer")
    outer.include(inner)
    heard: dict[str, list[ErrorEvent]] = {"inner": [], "outer": []}
    inner.on_error(heard["inner"].append)
    outer.on_error(heard["outer"].append)
    async with connect(outer) as client:
        await error_text(client, CALLS["tool"])
    assert [failure.ctx.server for failure in heard["outer"]] == [outer]
    assert heard["inner"] == []


@pytest.mark.parametrize("hook", [None, 3, lambda: None, asyncio.sleep])
def test_error_hook_wrong_function_is_refused(hook: Any) -> None:
    with pytest.raises(RegistrationError, match="on_error"):
        Server("s").on_error(hook)
