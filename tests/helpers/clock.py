"""A clock that tests move."""

from __future__ import annotations


class Clock:
    """A time that passes when the test says so.

    Args:
        now: When it begins, in seconds.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
