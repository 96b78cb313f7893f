"""Log messages for a repeated failure: one at its start, and one at its end."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class Trouble:
    """An operation that is retried until it succeeds.

    Args:
        there: Message for the first failure.
        over: Message for the first success after a failure.

    Attributes:
        count: Number of failures since the last success.
    """

    def __init__(self, there: str, over: str) -> None:
        self.count = 0
        self._there = there
        self._over = over

    def begin(self, error: Exception) -> None:
        """Record a failure. An error other than OSError is logged with its traceback."""
        if not self.count:
            is_known = isinstance(error, OSError)
            logger.warning("%s: %s", self._there, error, exc_info=None if is_known else error)
        self.count += 1

    def end(self) -> None:
        """Record a success."""
        if self.count:
            logger.info("%s", self._over)
        self.count = 0
