"""Measurement of the duration and outcome of requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from ..execution.coroutines import is_cancelled_from_outside
from ..requests.call import call_of
from ..requests.failures import code_of, is_input_required, is_masked, ref_of, single
from .base import CallNext, Request, Result, ToolCallResult

Outcome = Literal["ok", "tool_error", "error", "input_required", "cancelled"]


class RequestTiming(NamedTuple):
    """Duration and outcome of one request.

    Args:
        request: The request.
        seconds: Duration in seconds.
        outcome: `ok`; `tool_error` for a tool result with `isError`; `error` for a JSON-RPC error; `input_required`
            for a round that ended with a request to the client (2026-07-28); or `cancelled`.
        error: Exception, with the outcome `error`, and with `tool_error` unless the tool returned the error result. An
            exception group with a single exception is replaced by that exception.
        code: JSON-RPC error code of the response.
        ref: Reference of the exception in the log and in the client's message ("Internal error (ref ...)"). None if
            the client gets the text of the exception.
    """

    request: Request
    seconds: float
    outcome: Outcome
    error: BaseException | None = None
    code: int | None = None
    ref: str | None = None


class Timing:
    """Measures each request and reports it when it has ended.

    The time that a request waits for input of the user counts. In 2026-07-28 each round is a request of its own.

    Args:
        report: Called with each measurement, in the event loop; it must not block. Its exceptions replace the result
            of the request.
    """

    def __init__(self, report: Callable[[RequestTiming], object]) -> None:
        self._report = report

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request and report its measurement."""
        started = time.perf_counter()
        try:
            result = await call_next(request)
        except BaseException as error:
            seconds = time.perf_counter() - started
            call = call_of(request.ctx)
            if is_input_required(error):
                self._report(RequestTiming(request, seconds, "input_required"))
            elif call.is_ended or is_cancelled_from_outside(error):  # the client gets no response
                self._report(RequestTiming(request, seconds, "cancelled"))
            else:
                ref = ref_of(call) if is_masked(error) else None
                timing = RequestTiming(request, seconds, "error", single(error), code_of(call, error), ref)
                self._report(timing)
            raise
        seconds = time.perf_counter() - started
        if isinstance(result, ToolCallResult) and result.is_error:
            self._report(RequestTiming(request, seconds, "tool_error", result.exception, None, result.ref))
        else:
            self._report(RequestTiming(request, seconds, "ok"))
        return result


def error_type_of(error: BaseException) -> str:
    """Return the name of an exception's class, with its module unless that is Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
