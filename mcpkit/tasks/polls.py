"""Adaptive poll interval of tasks."""

from __future__ import annotations

import time

_MOST_LOOKS = 200
"""Polls per second in one process above which clients get a longer `pollInterval`."""


class Polls:
    """Counts polls of tasks in this process.

    Attributes:
        load: Factor for the poll interval, at least 1.
    """

    def __init__(self) -> None:
        self.load = 1.0
        self._since = time.monotonic()
        self._count = 0

    def count(self) -> None:
        """Count a poll."""
        self._count += 1
        if (passed := time.monotonic() - self._since) >= 1:
            self.load = max(1.0, self._count / passed / _MOST_LOOKS)
            self._since, self._count = time.monotonic(), 0
