"""Middleware as authors write it; the type checkers read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_type

from mcpkit import Server, ToolError, current_context
from mcpkit.extensions import ErrorEvent
from mcpkit.middleware import (
    AccessLog,
    CallNext,
    CallTool,
    RateLimit,
    Request,
    RequestTiming,
    Result,
    SizeLimit,
    Telemetry,
    Timing,
    ToolCall,
    ToolCallResult,
)

server = Server("typed")


@server.middleware
async def passing(request: Request, call_next: CallNext) -> Result:
    assert_type(request.params, dict[str, Any])
    result = await call_next(request)
    assert_type(result, Result)
    return result


@server.middleware("tools/call")
async def for_tools(request: ToolCall, call_next: CallTool) -> ToolCallResult:
    assert_type(request.name, str)
    result = await call_next(request.with_arguments({**request.arguments, "a": 1}))
    assert_type(result.is_error, bool)
    assert_type(result.exception, BaseException | None)
    assert_type(result.text, str)
    return result


@server.middleware("prompts/get")
async def answering(request: Request, call_next: CallNext) -> Mapping[str, Any]:
    return {"messages": []} if request.target == "empty" else await call_next(request)


@server.middleware("tools/call")
async def answering_a_call(request: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
    return {"content": []} if request.name == "empty" else await call_next(request)


def note(timed: RequestTiming) -> None:
    assert_type(timed.seconds, float)


log = server.middleware(AccessLog())
assert_type(log, AccessLog)
server.middleware(Timing(note))
server.middleware(RateLimit(10, key=lambda ctx: ctx.headers.get("x-user")))
server.middleware(SizeLimit(1000))
server.middleware("tools/call")(SizeLimit(1000))
server.middleware(Telemetry())


@server.on_error
def report(failure: ErrorEvent) -> None:
    assert_type(failure.exception, BaseException)
    assert_type(failure.ref, str | None)


@server.on_error
def explain(failure: ErrorEvent) -> ToolError | None:
    return ToolError("known") if isinstance(failure.exception, KeyError) else None


if TYPE_CHECKING:
    assert_type(explain(ErrorEvent(current_context(), KeyError(), None)), ToolError | None)

    def plain(request: Request, call_next: CallNext) -> Result:
        return Result({})

    server.middleware(plain)  # type: ignore[type-var]  # pyright: ignore[reportCallIssue, reportArgumentType]
