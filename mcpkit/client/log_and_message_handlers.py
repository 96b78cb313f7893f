"""Handlers of a client for log messages (server/utilities/logging) and other notifications of a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from .._utils.option_checks import check_function
from ..protocol.jsonrpc import Json
from ..protocol.revisions import LOG_LEVEL, STATELESS, check_log_level
from .client_session import ClientSession
from .pending_requests_and_callbacks import SerialCallbacks

logger = logging.getLogger(__name__)

LogHandler = Callable[[str, Any, "str | None"], object]
"""Called with level, data and logger name (or None) of a log message; it may be `async`."""

MessageHandler = Callable[[str, Json], object]
"""Called with method and params of a notification; it may be `async`."""

_TIMEOUT: Final = 30.0
"""Seconds that a server has to accept the level when a connection is opened, which other requests wait for."""


class ServerLog:
    """Requests the log level from a server, once in a session or with each request in 2026-07-28.

    Args:
        session: The session with the server.
        log: Called with each log message; None for no handler.

    Attributes:
        level: The lowest level to send; None leaves it to the server.

    Raises:
        TypeError: `log` is not a function.
    """

    def __init__(self, session: ClientSession, log: LogHandler | None) -> None:
        self._session = session
        check_function("log_handler", log, "level, data and the logger's name")
        self.level: str | None = None
        session.renewals.append(self._renew)
        if log is None:
            return
        calls = _serial_calls(session)

        def receive(method: str, params: Json | None) -> None:
            if method == "notifications/message" and params is not None:
                level, name = params.get("level"), params.get("logger")
                level = level if isinstance(level, str) else "info"
                calls.call(log, level, params.get("data"), name if isinstance(name, str) else None)

        session.listeners.add(receive)

    def params(self, params: Mapping[str, Any] | None, level: str | None = None) -> Mapping[str, Any] | None:
        """Return the params of a request, with the log level if the protocol version has it there.

        Args:
            params: The params.
            level: The level for this request; None for the level of the client.
        """
        level = level or self.level
        if level is None or self._session.wire.revision not in STATELESS:
            return params
        params = {} if params is None else params
        return {**params, "_meta": {LOG_LEVEL: level, **params.get("_meta", {})}}

    def set_level(self, level: str) -> bool:
        """Set the level, and return whether the server must be notified.

        Raises:
            ProtocolError: There is no such level.
        """
        self.level = check_log_level(level)
        return self._session.is_open and self._session.wire.revision not in STATELESS

    async def _renew(self) -> None:
        """Set the level in a new session."""
        session = self._session
        if self.level is None or session.wire.revision in STATELESS or session.negotiated is None:
            return
        if "logging" in session.negotiated.capabilities:
            await session.exchange("logging/setLevel", {"level": self.level}, None, _TIMEOUT)


def add_message_handler(session: ClientSession, handler: MessageHandler) -> None:
    """Call a handler with each notification that belongs to no request. Its errors are logged.

    Args:
        session: The session with the server.
        handler: The handler.

    Raises:
        TypeError: The handler is not a function.
    """
    check_function("message_handler", handler, "method and params")
    calls = _serial_calls(session)

    def receive(method: str, params: Json | None) -> None:
        try:
            calls.call(handler, method, {} if params is None else params)
        except Exception as error:  # noqa: BLE001 - any error of the handler
            _log_error(error)

    session.listeners.add(receive)


def _serial_calls(session: ClientSession) -> SerialCallbacks:
    """Return a queue of handler calls that stops when the session is closed."""
    calls = SerialCallbacks(_log_error)
    session.losses.add(lambda _: calls.stop() if session.is_closed else None)
    return calls


def _log_error(error: Exception) -> None:
    logger.error(
        "a notification handler raised an exception. The next notifications are still delivered",
        exc_info=error,
    )
