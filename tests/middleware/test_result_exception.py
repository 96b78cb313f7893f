"""Middleware sees the exception behind a tool's error result, and what records requests names it."""

from __future__ import annotations

import pytest

from mcpkit import Server, ToolError
from mcpkit.middleware import CallNext, CallTool, Request, Result, ToolCall, ToolCallResult
from mcpkit.testing import connect
from tests.helpers.failing import BOTH, CALLS, BrokenError, make_server, told

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", BOTH)
@pytest.mark.parametrize("tool", ["tool", "in_thread"])
@pytest.mark.parametrize("error", [BrokenError("secret"), ToolError("no")], ids=["unmeant", "meant"])
async def test_a_result_has_its_exception(
    revision: str, tool: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(error)
    results: list[ToolCallResult] = []

    @server.middleware("tools/call")
    async def look(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        results.append(await call_next(call))
        return results[-1]

    async with connect(server, revision=revision) as client:
        text = (await client.call(tool)).text
    assert results[0].exception is error
    assert text == ("no" if results[0].ref is None else f"Internal error (ref {results[0].ref})")
    assert (results[0].ref is None) == isinstance(error, ToolError)


async def test_a_result_that_is_none_of_an_exception_has_none(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    attempts = iter([BrokenError(), None])
    seen: list[tuple[bool, BaseException | None, str | None]] = []

    @server.tool
    async def tool() -> str:
        if (error := next(attempts)) is not None:
            raise error
        return "the second time"

    @server.middleware
    async def look(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        if isinstance(result, ToolCallResult):
            seen.append((result.is_error, result.exception, result.ref))
        return result

    @server.middleware("tools/call")
    async def again(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(call)
        return await call_next(call) if result.exception else result

    async with connect(server) as client:
        assert (await client.call("tool")).text == "the second time"
    assert seen == [(False, None, None)]


async def test_middleware_may_tell_the_model_what_went_wrong(caplog: pytest.LogCaptureFixture) -> None:
    server = make_server(BrokenError())
    outer: list[BaseException | None] = []

    @server.middleware("tools/call")
    async def look(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(call)
        outer.append(result.exception)
        return result

    @server.middleware("tools/call")
    async def explain(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(call)
        if isinstance(result.exception, BrokenError):
            raise ToolError("the station is down")
        return result

    async with connect(server) as client:
        assert await told(client, CALLS["tool"]) == "the station is down"
    assert [type(exception) for exception in outer] == [ToolError]
