"""One log record for each request."""

from __future__ import annotations

import logging

from .timing import Timed, Timing, error_type_of

_LONGEST = 200
"""Maximum characters of a value from a client, to keep records readable."""


class AccessLog(Timing):
    """Logs each request when it is over, for people in a line and for machines in the record's attributes.

    The attributes are `mcp_method`, `mcp_target` (the name or the URI that it is about), `mcp_request_id`,
    `mcp_protocol_version`, `mcp_client` (the name that it goes by), `mcp_principal` (who it is, where that has been
    verified), `mcp_attempt` (which run of a task it is), `mcp_duration_ms`, `mcp_outcome` (see `Timed`),
    `mcp_error_code`, `mcp_error_type` (the class of what was raised) and `mcp_error_ref` (what names it in the log and
    to the client); what there is not is None.
    No arguments, no results and no texts of exceptions are logged.

    Args:
        logger: Where to; the logger `mcpkit.access` when None.
        level: At which level.
    """

    def __init__(self, logger: logging.Logger | None = None, *, level: int = logging.INFO) -> None:
        self._logger = logger if logger is not None else logging.getLogger("mcpkit.access")
        self._level = level
        super().__init__(self._log)

    def _log(self, timed: Timed) -> None:
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
