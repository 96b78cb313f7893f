"""The author's functions that hear of what went wrong though nobody meant a client to read it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..calls.call import Call
from ..calls.failures import is_masked, ref_of, single
from ..calls.runtime import BaseCall
from ..calls.workers.threads import is_fatal
from ..common.errors import HandlerError
from ..common.functions import check_hook

if TYPE_CHECKING:
    from ..components.context import Context

logger = logging.getLogger(__name__)


class ErrorEvent(NamedTuple):
    """A request that has failed, as `@server.on_error` hears of it.

    Args:
        ctx: The request: `ctx.method`, `ctx.params`, `ctx.principal` and the like.
        exception: What was raised. Of a group with a single exception in it, as a task group raises it, that one.
        ref: What names it in the log and to the client ("Internal error (ref ...)"). None where the client reads what
            it was: that a call took too long, that its worker process has ended, or that its result cannot be sent.
    """

    ctx: Context[Any]
    exception: BaseException
    ref: str | None


ErrorHook = Callable[[ErrorEvent], HandlerError | None]
"""Receives a failure, and may return the error for the client."""

H = TypeVar("H", bound=ErrorHook)


class ErrorHooks:
    """What `@server.on_error` has registered, in that order.

    A hook is a function of one `ErrorEvent`, called in the event loop, so that it must not block. It hears of every
    request that ends with an exception which no client was meant to read, of calls that took too long
    (`CallTimeoutError`), whose worker process has ended (`ProcessEndedError`) or whose result cannot be sent
    (`OutputError`); not of what says itself
    what the client is to read, such as a `ToolError` or a `ProtocolError`, nor of arguments that do not fit, nor of
    what was cancelled. A tool's exception is told before middleware sees its result; any other exception when it
    has passed all middleware, unless one of them has answered.

    Where it returns a `ToolError`, `ResourceError`, `PromptError` or another error of their kind, the client reads
    that instead, as if the handler had raised it from the exception: the hooks after it are not called, and nothing is
    logged. What a hook raises is logged, and changes nothing.

    Attributes:
        hooks: The functions.
    """

    def __init__(self) -> None:
        self.hooks: tuple[ErrorHook, ...] = ()

    def __call__(self, hook: H, /) -> H:
        """Register a hook: `@server.on_error`.

        Returns:
            The function unchanged.

        Raises:
            RegistrationError: It is no function of one argument, or it is async.
        """
        check_hook(hook, "on_error", "ErrorEvent", "the response does not wait for it")
        self.hooks = (*self.hooks, hook)
        return hook

    def explain(self, call: BaseCall, exception: BaseException) -> BaseException:
        """Tell the hooks of an exception that nobody meant a client to read.

        Returns:
            What the client is to be told of: what one of them says, or else the exception itself.
        """
        if not self.hooks:
            return exception
        from ..components.context import Context

        assert isinstance(call, Call), "whatever runs does"
        failure = ErrorEvent(Context(call), single(exception), ref_of(call) if is_masked(exception) else None)
        for hook in self.hooks:
            try:
                told: Any = hook(failure)
                if told is None:
                    continue
                if not isinstance(told, HandlerError):
                    raise TypeError(
                        f"it returned {type(told).__name__}. Return None, or an exception with a message "
                        "for the client, "
                        'such as ToolError("...")'
                    )
            except BaseException as error:  # the answer does not depend on it
                if is_fatal(error):
                    raise
                logger.exception("the error hook %r failed", hook)
            else:
                if told.__cause__ is None and told is not failure.exception:
                    told.__cause__ = failure.exception
                return told
        return exception
