"""One log record for each request."""

from __future__ import annotations

import logging

from .timing import RequestTiming, Timing, error_type_of

_MAX_LENGTH = 200  # characters of a value from a client


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
