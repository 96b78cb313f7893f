"""How long each request took, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from ..calls.call import call_of
from ..calls.coroutines import is_cancelled_from_outside
from ..calls.failures import code_of, is_input_required, is_masked, ref_of, single
from .base import CallNext, Request, Result, ToolCallResult

Outcome = Literal["ok", "tool_error", "error", "input_required", "cancelled"]


class Timed(NamedTuple):
    """What became of a request.

    Args:
        request: The request.
        seconds: How long it took.
        outcome: `ok`; `tool_error` for a tool's result with `isError`; `error` for a JSON-RPC error;
            `input_required` for a round of the stateless era that ended with a question; or `cancelled`.
        error: What was raised, with the outcome `error`, and with `tool_error` unless the tool has returned an error
            result itself. Of a group with a single exception in it, as a task group raises it, it is that one.
        code: The JSON-RPC error code that it becomes.
        ref: What names it in the log and to the client ("Internal error (ref ...)"). None where it says itself what
            the client reads.
    """

    request: Request
    seconds: float
    outcome: Outcome
    error: BaseException | None = None
    code: int | None = None
    ref: str | None = None


class Timing:
    """Measures each request that passes, and reports it when it is over.

    The time while a question to the client is open counts, too; in the stateless era each round is a
    request of its own.

    Args:
        report: Takes what was measured, in the event loop and without blocking. What it raises
            becomes the end of the request.
    """

    def __init__(self, report: Callable[[Timed], object]) -> None:
        self._report = report

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Pass the request on, and measure it."""
        started = time.perf_counter()
        try:
            result = await call_next(request)
        except BaseException as error:
            seconds = time.perf_counter() - started
            if is_input_required(error):
                self._report(Timed(request, seconds, "input_required"))
            elif call_of(request.ctx).is_ended or is_cancelled_from_outside(
                error
            ):  # nobody hears of what was raised
                self._report(Timed(request, seconds, "cancelled"))
            else:
                ref = ref_of(call_of(request.ctx)) if is_masked(error) else None
                code = code_of(call_of(request.ctx), error)
                self._report(Timed(request, seconds, "error", single(error), code, ref))
            raise
        seconds = time.perf_counter() - started
        if isinstance(result, ToolCallResult) and result.is_error:
            self._report(Timed(request, seconds, "tool_error", result.exception, None, result.ref))
        else:
            self._report(Timed(request, seconds, "ok"))
        return result


def error_type_of(error: BaseException) -> str:
    """Return the name of an exception's class, with its module unless that is Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
