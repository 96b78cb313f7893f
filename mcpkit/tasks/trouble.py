"""What goes wrong again and again is told once, and once more when it is over."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class Trouble:
    """Something that is tried again until it can be done.

    Args:
        there: What is logged when it has failed, and had not before.
        over: What is logged when it has been done, and had failed before.

    Attributes:
        count: How many times it has failed since it was done last.
    """

    def __init__(self, there: str, over: str) -> None:
        self.count = 0
        self._there = there
        self._over = over

    def begin(self, error: Exception) -> None:
        """Take note that it has failed; of what is no fault of the engine's, it is logged where."""
        if not self.count:
            is_known = isinstance(error, OSError)
            logger.warning("%s: %s", self._there, error, exc_info=None if is_known else error)
        self.count += 1

    def end(self) -> None:
        """Take note that it has been done."""
        if self.count:
            logger.info("%s", self._over)
        self.count = 0
