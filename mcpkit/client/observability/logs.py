"""What a server logs: which of it a client wants, and who hears of it (server/utilities/logging)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ...common.functions import check_function
from ...protocol.eras import LOG_LEVEL, check_log_level
from ...protocol.revisions import STATELESS
from ...protocol.types import Json
from ..link.in_turn import InTurn
from ..link.link import Link
from .notifications import turns_of

LogHandler = Callable[[str, Any, "str | None"], object]
"""Called with level, data and the logger's name of a log message; it may be `async`."""

_TIMEOUT: Final = 30.0
"""Seconds that a server has to take the level when the connection is opened: all else waits for that."""


class ServerLog:
    """The log of a server, as a client wants it: in sessions the server is told once, otherwise in each request.

    Args:
        link: The link to the server.
        log: Called with each message; None for no function.

    Attributes:
        level: The least severe level that is wanted; None for what the server chooses.

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
        """Return the params of a request, with the level in them where the revision has it there.

        Args:
            params: The params.
            level: The level for this request; None for that of all.
        """
        level = level or self.level
        if level is None or self._link.wire.revision not in STATELESS:
            return params
        params = {} if params is None else params
        return {**params, "_meta": {LOG_LEVEL: level, **params.get("_meta", {})}}

    def want(self, level: str) -> bool:
        """Take another level from now on, and say whether the server must be told.

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
