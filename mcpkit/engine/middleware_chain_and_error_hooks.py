"""The middleware chain, through which requests and results pass, and hooks for unexpected exceptions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from .._utils.exceptions import HandlerError, ProtocolError
from .._utils.option_checks import check_hook
from ..context import Context
from ..execution.worker_threads import is_fatal
from ..middleware.base import UNWRAPPED, Hooks, Request, Result, ToolCall, ToolCallResult, is_handle
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Outcome, Ready
from ..protocol.revisions import LATEST, narrow_tool_result
from ..requests.access_and_error_responses import is_masked, ref_of, single, tool_error
from ..requests.request_record import NO_STATE, Call, call_of
from .request_handlers_and_capabilities import Handler, becomes_result, is_of_extension

logger = logging.getLogger(__name__)

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


# Hooks for exceptions: `@server.on_error`


class ErrorEvent(NamedTuple):
    """A failed request, the argument of functions that are registered by `@server.on_error`.

    Args:
        ctx: The request: `ctx.method`, `ctx.params`, `ctx.principal` and the like.
        exception: The exception. A group with a single exception, as task groups raise it, is replaced by that
            exception.
        ref: Reference in the log and in the client's message ("Internal error (ref ...)"). None if the client gets the
            actual reason: a time limit, a worker process that ended, or a result that cannot be sent.
    """

    ctx: Context[Any]
    exception: BaseException
    ref: str | None


# Receives a failure, and may return the error for the client.
ErrorHook = Callable[[ErrorEvent], HandlerError | None]

H = TypeVar("H", bound=ErrorHook)


class ErrorHooks:
    """Functions that get unexpected exceptions, such as a hook that reports them to an error tracker.

        @server.on_error
        def report(event: ErrorEvent) -> None:
            tracker.capture(event.exception, tags={"method": event.ctx.method})

    A hook takes one `ErrorEvent`. It runs in the event loop, so it must not block. It gets each exception that ends a
    request and is not a message for the client. It also gets time limits (`CallTimeoutError`), worker processes that
    ended (`ProcessEndedError`) and results that cannot be sent (`OutputError`). It does not get errors with a message
    for the client, such as `ToolError` and `ProtocolError`, nor invalid arguments and cancelled calls. For a tool, it
    runs before middleware gets the result. For other methods, it runs after all middleware, unless a middleware has
    handled the exception.

    A hook may return a `ToolError`, `ResourceError`, `PromptError` or a similar error. The client then gets this error,
    as if the handler had raised it; further hooks are not called, and nothing is logged. An exception of a hook is
    logged and otherwise ignored.

    Attributes:
        hooks: The registered functions, in order of registration.
    """

    def __init__(self) -> None:
        self.hooks: tuple[ErrorHook, ...] = ()

    def __call__(self, hook: H, /) -> H:
        """Register a hook: `@server.on_error`.

        Args:
            hook: The function.

        Returns:
            The function unchanged.

        Raises:
            RegistrationError: It is not a function of one argument, or it is `async`.
        """
        check_hook(hook, "on_error", "ErrorEvent", "the response does not wait for it")
        self.hooks = (*self.hooks, hook)
        return hook

    def explain(self, call: Call, exception: BaseException) -> BaseException:
        """Call the hooks with an exception that is not a message for the client.

        Returns:
            The error for the client: the one that a hook returned, or the exception itself.
        """
        if not self.hooks:
            return exception
        failure = ErrorEvent(Context(call), single(exception), ref_of(call) if is_masked(exception) else None)
        for hook in self.hooks:
            try:
                error_for_client: Any = hook(failure)
                if error_for_client is None:
                    continue
                if not isinstance(error_for_client, HandlerError):
                    raise TypeError(
                        f"it returned {type(error_for_client).__name__}. Return None, or an exception with a message "
                        'for the client, such as ToolError("...")'
                    )
            except BaseException as error:  # the response does not depend on the hook
                if is_fatal(error):
                    raise
                logger.exception(
                    "the error hook %r failed. It is skipped, and the client receives an error as without it",
                    hook,
                )
            else:
                if error_for_client.__cause__ is None and error_for_client is not failure.exception:
                    error_for_client.__cause__ = failure.exception
                return error_for_client
        return exception
