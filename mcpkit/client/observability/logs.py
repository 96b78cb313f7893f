"""Log messages of a server: the level to request, and the handler (server/utilities/logging)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ..._utils.option_checks import check_function
from ...protocol.jsonrpc import Json
from ...protocol.revisions import LOG_LEVEL, STATELESS, check_log_level
from ..link.in_turn import InTurn
from ..link.link import Link
from .notifications import turns_of

LogHandler = Callable[[str, Any, "str | None"], object]
"""Called with level, data and logger name (or None) of a log message; it may be `async`."""

_TIMEOUT: Final = 30.0
"""Seconds that a server has to accept the level when a connection is opened, which other requests wait for."""


class ServerLog:
    """Requests the log level from a server, once in a session or with each request in 2026-07-28.

    Args:
        link: The link to the server.
        log: Called with each log message; None for no handler.

    Attributes:
        level: The lowest level to send; None leaves it to the server.

    Raises:
        TypeError: `log` is not a function.
    """

    def __init__(self, link: Link, log: LogHandler | None) -> None:
        self._link = link
        check_function("log_handler", log, "level, data and the logger's name")
        self.level: str | None = None
        if log is not None:
            link.listeners.add(partial(self._hear, log, turns_of(link)))
        link.renewals.append(self._renew)

    def params(self, params: Mapping[str, Any] | None, level: str | None = None) -> Mapping[str, Any] | None:
        """Return the params of a request, with the log level if the revision has it there.

        Args:
            params: The params.
            level: The level for this request; None for the level of the client.
        """
        level = level or self.level
        if level is None or self._link.wire.revision not in STATELESS:
            return params
        params = {} if params is None else params
        return {**params, "_meta": {LOG_LEVEL: level, **params.get("_meta", {})}}

    def want(self, level: str) -> bool:
        """Set the level, and return whether the server must be notified.

        Raises:
            ProtocolError: There is no such level.
        """
        self.level = check_log_level(level)
        return self._link.is_open and self._link.wire.revision not in STATELESS

    async def _renew(self) -> None:
        link = self._link
        if self.level is None or link.wire.revision in STATELESS or link.negotiated is None:
            return
        if "logging" in link.negotiated.capabilities:
            await link.exchange("logging/setLevel", {"level": self.level}, None, _TIMEOUT)

    @staticmethod
    def _hear(log: LogHandler, turns: InTurn, method: str, params: Json | None) -> None:
        if method == "notifications/message" and params is not None:
            level, name = params.get("level"), params.get("logger")
            level = level if isinstance(level, str) else "info"
            turns.call(log, level, params.get("data"), name if isinstance(name, str) else None)
