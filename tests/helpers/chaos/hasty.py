"""An event loop whose time passes at once where nothing happens, so that long waits take no time.

What happens within one process needs no time of the clock: once nothing has happened for a moment, only a timer can go
on. A wait for half a minute and one for a second so end in their order, in no time.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_MOMENT = 0.001
"""Seconds in which whatever is under way between two sockets of this machine has arrived."""


class _Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # which class it is, the platform says
    skip: Callable[[float], None]

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= _MOMENT:
            return super().select(timeout)
        events = super().select(_MOMENT)
        if not events:
            self.skip(timeout)
        return events


class HastyLoop(asyncio.SelectorEventLoop):
    """The loop.

    Args:
        complain: Called with what nobody else has heard of, such as exceptions that were never retrieved.

    Attributes:
        ahead: Seconds that its time is ahead of the clock.
    """

    def __init__(self, complain: Callable[[Any], object]) -> None:
        self.ahead = 0.0
        selector = _Selector()
        selector.skip = self._skip
        super().__init__(selector)
        self.set_exception_handler(lambda _, context: complain(context))

    def time(self) -> float:
        """Return its time."""
        return super().time() + self.ahead

    def _skip(self, seconds: float) -> None:
        self.ahead += seconds


def run(main: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run a coroutine in a loop, which is closed at the end with all that is in it."""
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


assert sys.platform != "win32", "a selector of Windows knows sockets alone"
