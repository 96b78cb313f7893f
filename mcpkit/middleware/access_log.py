"""One log record for each request."""

from __future__ import annotations

import logging

from .timing import RequestTiming, Timing, error_type_of

_LONGEST = 200
"""Maximum characters of a value from a client, to keep records readable."""


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
        request, ctx = timed.request, timed.request.ctx
        client, method, target = ctx.client.info.get("name"), request.method[:_LONGEST], request.target
        if client is not None:
            client = client[:_LONGEST]
        if target is not None:
            target = target[:_LONGEST]
        milliseconds = round(timed.seconds * 1000, 3)
        error_type = None if timed.error is None else error_type_of(timed.error)
        ending = timed.outcome if timed.code is None else f"{timed.outcome} {timed.code}"
        if timed.ref is not None:  # any other says itself what is wrong, and is not unexpected
            ending = f"{ending} {error_type} (ref {timed.ref})"
        about = "" if target is None else f" {target!r}"
        attempt = None if ctx.task is None else ctx.task.attempt
        if attempt is not None:
            about = f"{about} run {attempt}"
        extra = {
            "mcp_method": method,
            "mcp_target": target,
            "mcp_request_id": ctx.request_id,
            "mcp_protocol_version": ctx.protocol_version,
            "mcp_client": client,
            "mcp_principal": ctx.principal.id,
            "mcp_attempt": attempt,
            "mcp_duration_ms": milliseconds,
            "mcp_outcome": timed.outcome,
            "mcp_error_code": timed.code,
            "mcp_error_type": error_type,
            "mcp_error_ref": timed.ref,
        }
        # With repr, nothing that a client says can look like a line of its own.
        self._logger.log(
            self._level, "%s%s %s %.1f ms", _plain(method), about, ending, milliseconds, extra=extra
        )


def _plain(method: str) -> str:
    return method if method.isprintable() else repr(method)
