"""Hooks for unexpected exceptions: `@server.on_error`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .._utils.exceptions import HandlerError
from .._utils.option_checks import check_hook
from ..context import Context
from ..execution.worker_threads import is_fatal
from ..requests.access_and_error_responses import is_masked, ref_of, single
from ..requests.request_record import Call

logger = logging.getLogger(__name__)


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
