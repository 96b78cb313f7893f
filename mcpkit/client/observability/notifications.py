"""Passes notifications of a server to the client's `message_handler`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..._utils.option_checks import check_function
from ...protocol.jsonrpc import Json
from ..link.in_turn import InTurn
from ..link.link import Link

logger = logging.getLogger(__name__)

MessageHandler = Callable[[str, Json], object]
"""Called with method and params of a notification; it may be `async`."""


def hear_notifications(link: Link, notification: MessageHandler) -> None:
    """Call a handler with each notification of a link that belongs to no request. Its errors are logged.

    Args:
        link: The link.
        notification: The handler.

    Raises:
        TypeError: The handler is not a function.
    """
    check_function("message_handler", notification, "method and params")
    turns = turns_of(link)

    def tell(method: str, params: Json | None) -> None:
        try:
            turns.call(notification, method, {} if params is None else params)
        except Exception as error:  # noqa: BLE001 - it is another one's
            _has_failed(error)

    link.listeners.add(tell)


def turns_of(link: Link) -> InTurn:
    """Return the queue that calls handlers one after the other as long as the link is open."""
    turns = InTurn(_has_failed)
    link.losses.add(lambda _: turns.stop() if link.is_closed else None)
    return turns


def _has_failed(error: Exception) -> None:
    logger.error(
        "a notification handler raised an exception. The next notifications are still delivered",
        exc_info=error,
    )
