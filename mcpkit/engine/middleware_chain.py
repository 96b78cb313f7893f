"""The middleware chain: requests pass through it to the handler, and results pass back."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, cast

from .._utils.exceptions import ProtocolError
from ..context import Context
from ..middleware.base import UNWRAPPED, Hooks, Request, Result, ToolCall, ToolCallResult, is_handle
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Outcome, Ready
from ..protocol.revisions import LATEST, narrow_tool_result
from ..requests.access_and_error_responses import is_masked, ref_of, tool_error
from ..requests.request_record import NO_STATE, Call, call_of
from .request_handlers_and_capabilities import Handler, becomes_result, is_of_extension

# The chain


def build_chain(hooks: Hooks, handler: Handler) -> Handler:
    """Return a function that serves requests through middleware, the first hook outermost."""

    def answer(call: Call) -> Ready | Coroutine[Any, Any, Outcome]:
        method = call.method
        if method in UNWRAPPED:
            return handler(call)
        wrapping = [(only, hook) for only, hook in hooks if only is None or only == method]
        return _answer(call, wrapping, handler) if wrapping else handler(call)

    return answer


async def _answer(call: Call, hooks: Hooks, handler: Handler) -> Outcome:
    """Serve a request through its middleware."""
    result = await _pass(Request(Context(call), call.params), hooks, 0, handler)
    return result.outcome


async def _pass(request: Request, hooks: Hooks, index: int, handler: Handler) -> Result:
    """Call the middleware at an index, or the handler after the last one."""
    call = call_of(request.ctx)
    make = ToolCallResult if call.method == "tools/call" else Result
    if index == len(hooks):
        return make(await _handled(request, handler), *_take_exception(call))

    def call_next(request: Request) -> Coroutine[Any, Any, Result]:
        return _pass(request, hooks, index + 1, handler)

    only, hook = hooks[index]
    if only == "tools/call":
        params = request.params
        if not isinstance(params.get("name"), str) or not isinstance(params.get("arguments", {}), dict):
            return await call_next(request)
        request = ToolCall(request.ctx, request.params)
    try:
        result = await hook(request, call_next)
    except ProtocolError:
        raise
    except BaseException as error:
        if call.method != "tools/call" or not becomes_result(call, error):
            raise
        result = tool_error(call, error)
    if isinstance(result, Result):
        return result
    if is_of_extension(result):
        return make(call.render(result))
    if not isinstance(result, Mapping):
        raise TypeError(
            f"the middleware {hook!r} returned {type(result).__name__}. "
            "Return the result of call_next, or a result object"
        )
    return make(_completed(call, hook, dict(cast("Mapping[str, Any]", result))), *_take_exception(call))


async def _handled(request: Request, handler: Handler) -> Outcome:
    call = call_of(request.ctx)
    if request.params is not call.params:
        call.sent = call.sent or call.params
        call.params = request.params
        call.meta = request.params.get("_meta") or {}
    outcome = handler(call)
    try:
        return outcome if isinstance(outcome, (dict, bytes)) else await outcome
    finally:
        call.state = NO_STATE  # the handler's may be that of a server which is included


def _take_exception(call: Call) -> tuple[BaseException | None, str | None]:
    """Return and clear the exception behind a tool's error result, with its reference in the log."""
    exception, call.exception = call.exception, None
    return exception, None if exception is None or not is_masked(exception) else ref_of(call)


def _completed(call: Call, hook: Any, result: dict[str, Any]) -> Outcome:
    """Convert a result that a middleware created to the form of the revision and the era.

    Raises:
        TypeError: It is the result of a tool, and has no content blocks.
    """
    # Of another type, it is an extension's, which knows what is in it.
    if (
        call.method == "tools/call"
        and result.get("resultType", "complete") == "complete"
        and not is_handle(result)
    ):
        blocks: Any = result.get("content")
        if not isinstance(blocks, (list, tuple)) or not all(
            jsonrpc.is_object(block) and isinstance(block.get("type"), str)
            for block in cast("Sequence[Any]", blocks)
        ):
            raise TypeError(
                f"the middleware {hook!r} returned a result of {call.method} without content blocks, such as "
                '{"content": [{"type": "text", "text": "..."}]}'
            )
        if call.revision != LATEST:
            result = narrow_tool_result(result, call.revision, wrapped=False)
    if call.era == "stateless" and "resultType" not in result:
        return call.render(result)
    return result
