"""The chain of middleware that a request passes through, and its result on the way back."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, cast

from .content.values import ExtensionResult
from .context import NO_STATE, Context
from .errors import ProtocolError
from .failures import is_masked, ref_of, tool_error
from .methods import Dispatch, becomes_result, dispatch
from .middleware import UNWRAPPED, Hooks, Request, Result, ToolCall, ToolCallResult
from .protocol import content, jsonrpc
from .protocol.jsonrpc import Outcome, Ready
from .protocol.revisions import LATEST


def through(hooks: Hooks) -> Dispatch:
    """Return what answers requests through middleware, the first of it outermost; the plain dispatch without any."""

    def answer(ctx: Context[Any]) -> Ready | Coroutine[Any, Any, Outcome]:
        method = ctx.method
        if method in UNWRAPPED:
            return dispatch(ctx)
        wrapping = [(only, hook) for only, hook in hooks if only is None or only == method]
        return _answer(ctx, wrapping) if wrapping else dispatch(ctx)

    return answer if hooks else dispatch


async def _answer(ctx: Context[Any], hooks: Hooks) -> Outcome:
    """Answer a request through its middleware."""
    result = await _pass(Request(ctx, ctx.params), hooks, 0)
    return result.outcome


async def _pass(request: Request, hooks: Hooks, index: int) -> Result:
    """Give a request to the middleware at an index, or to its handler where there is none left."""
    ctx = request.ctx
    make = ToolCallResult if ctx.method == "tools/call" else Result
    if index == len(hooks):
        return make(await _handled(request), *_taken(ctx))

    def call_next(request: Request) -> Coroutine[Any, Any, Result]:
        return _pass(request, hooks, index + 1)

    only, hook = hooks[index]
    if only == "tools/call":
        if not _is_tool_call(request.params):
            return await call_next(request)
        request = ToolCall(ctx, request.params)
    try:
        result = await hook(request, call_next)
    except ProtocolError:
        raise
    except BaseException as error:
        if ctx.method != "tools/call" or not becomes_result(ctx, error):
            raise
        result = tool_error(ctx, error)
    if isinstance(result, Result):
        return result
    if not isinstance(result, Mapping):
        raise TypeError(
            f"the middleware {hook!r} returned {type(result).__name__}: "
            "return what call_next has returned, or a result object"
        )
    if isinstance(result, ExtensionResult):
        return make(ctx.server._render(ctx, result))
    return make(_completed(ctx, hook, dict(cast("Mapping[str, Any]", result))), *_taken(ctx))


async def _handled(request: Request) -> Outcome:
    ctx = request.ctx
    if request.params is not ctx.params:
        ctx.params = request.params
        ctx.meta = request.params.get("_meta") or {}
    outcome = dispatch(ctx)
    try:
        return outcome if isinstance(outcome, (dict, bytes)) else await outcome
    finally:
        if ctx.server.included:
            ctx._state = NO_STATE  # the handler's may be that of a server which is included


def _taken(ctx: Context[Any]) -> tuple[BaseException | None, str | None]:
    """Return the exception that a tool's error result has been made of, and its reference; once."""
    exception, ctx._exception = ctx._exception, None
    return exception, None if exception is None or not is_masked(exception) else ref_of(ctx)


def _is_tool_call(params: dict[str, Any]) -> bool:
    return isinstance(params.get("name"), str) and isinstance(params.get("arguments", {}), dict)


def _has_blocks(result: dict[str, Any]) -> bool:
    blocks = result.get("content")
    if not isinstance(blocks, (list, tuple)):
        return False
    return all(
        jsonrpc.is_object(block) and isinstance(block.get("type"), str)
        for block in cast("Sequence[Any]", blocks)
    )


def _completed(ctx: Context[Any], hook: Any, result: dict[str, Any]) -> Outcome:
    """Give a result that a middleware has made what the revision and the era want of it.

    Raises:
        TypeError: It is the result of a tool, and has no content blocks.
    """
    # Of another type, it is an extension's, which knows what is in it.
    if ctx.method == "tools/call" and result.get("resultType", "complete") == "complete":
        if not _has_blocks(result):
            raise TypeError(
                f"the middleware {hook!r} returned a result of {ctx.method} without content blocks, such as "
                '{"content": [{"type": "text", "text": "..."}]}'
            )
        if ctx.revision != LATEST:
            result = content.tool_result(result, ctx.revision, wrapped=False)
    if ctx.era == "stateless" and "resultType" not in result:
        return ctx.server._render(ctx, result)
    return result
