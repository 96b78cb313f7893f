"""The access log: one log record for each request, with its duration and outcome, which `Timing` measures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from ..execution.coroutines import is_cancelled_from_outside
from ..requests.error_responses import code_of, is_input_required, is_masked, ref_of, single
from ..requests.request_record import call_of
from .base import CallNext, Request, Result, ToolCallResult

_MAX_LENGTH = 200  # characters of a value from a client

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


class AccessLog(Timing):
    """Logs each request when it has ended, as one line, and as attributes of the log record.

    The attributes are `mcp_method`, `mcp_target` (name or URI), `mcp_request_id`, `mcp_protocol_version`, `mcp_client`
    (name of the client software), `mcp_principal` (id of the authenticated user), `mcp_attempt` (number of the run of
    a task), `mcp_duration_ms`, `mcp_outcome` (see `RequestTiming`), `mcp_error_code`, `mcp_error_type` (class of the
    exception) and `mcp_error_ref` (reference of the exception in the log and in the client's message). Missing values
    are None.

    Arguments, results and texts of exceptions are not logged.

    Args:
        logger: The logger; None takes `mcpkit.access`.
        level: Level of the records.
    """

    def __init__(self, logger: logging.Logger | None = None, *, level: int = logging.INFO) -> None:
        self._logger = logger if logger is not None else logging.getLogger("mcpkit.access")
        self._level = level
        super().__init__(self._log)

    def _log(self, timed: RequestTiming) -> None:
        if not self._logger.isEnabledFor(self._level):
            return
        ctx, method, target = timed.request.ctx, timed.request.method[:_MAX_LENGTH], timed.request.target
        target = None if target is None else target[:_MAX_LENGTH]
        client = ctx.client.info.get("name")
        attempt = None if ctx.task is None else ctx.task.attempt
        error_type = None if timed.error is None else error_type_of(timed.error)
        milliseconds = round(timed.seconds * 1000, 3)
        extra = {
            "mcp_method": method,
            "mcp_target": target,
            "mcp_request_id": ctx.request_id,
            "mcp_protocol_version": ctx.protocol_version,
            "mcp_client": None if client is None else client[:_MAX_LENGTH],
            "mcp_principal": ctx.principal.id,
            "mcp_attempt": attempt,
            "mcp_duration_ms": milliseconds,
            "mcp_outcome": timed.outcome,
            "mcp_error_code": timed.code,
            "mcp_error_type": error_type,
            "mcp_error_ref": timed.ref,
        }
        # A client cannot start a new line in the log, because its values are written as `repr` or are printable.
        about = method if method.isprintable() else repr(method)
        if target is not None:
            about = f"{about} {target!r}"
        if attempt is not None:
            about = f"{about} run {attempt}"
        ending = timed.outcome if timed.code is None else f"{timed.outcome} {timed.code}"
        if timed.ref is not None:  # the client got no text, so the class helps to find the exception
            ending = f"{ending} {error_type} (ref {timed.ref})"
        self._logger.log(self._level, "%s %s %.1f ms", about, ending, milliseconds, extra=extra)
