"""What a server says unasked, for whoever wants to hear all of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...common.functions import check_function
from ...protocol.types import Json
from ..link.link import Link

logger = logging.getLogger("mcpkit")

Notified = Callable[[str, Json], object]
"""Called with method and params of a notification."""


def hear_notifications(link: Link, notification: Notified) -> None:
    """Tell of all notifications of a link that belong to no request; what fails at that is logged.

    Args:
        link: The link.
        notification: Who is told.

    Raises:
        TypeError: It is no function.
    """
    check_function("notification", notification, "method and params")

    def tell(method: str, params: Json | None) -> None:
        try:
            notification(method, {} if params is None else params)
        except Exception:
            logger.exception("What is told of notifications has failed at %s", method)

    link.listeners.add(tell)
