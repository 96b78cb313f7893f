"""How often clients look for their tasks, and how long they are advised to wait in between."""

from __future__ import annotations

import time

_MOST_LOOKS = 200
"""Polls per second in one process above which clients get a longer `pollInterval`."""


class Polls:
    """How many look for their tasks in this process.

    Attributes:
        load: By how much longer than usual they are to wait between two looks; at least 1.
    """

    def __init__(self) -> None:
        self.load = 1.0
        self._since = time.monotonic()
        self._count = 0

    def count(self) -> None:
        """Take note of a look."""
        self._count += 1
        if (passed := time.monotonic() - self._since) >= 1:
            self.load = max(1.0, self._count / passed / _MOST_LOOKS)
            self._since, self._count = time.monotonic(), 0
