"""Signals: whoever runs the app handles them, and the app hears of them first.

A server such as uvicorn waits for open connections before it tells an app to shut down, and never tells one
that is mounted in another. So the app listens itself, ends its streams, and lets the server's handler go on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final
from weakref import ref

from ...running.processes import kill_workers

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SLACK: Final = 0.3
"""Seconds after the grace period in which the process may still end by itself."""
_HASTE: Final = 1.0
"""Seconds after a second Ctrl+C in which the lifespan may be left and the process end by itself."""


class Ending:
    """How what is served in an event loop ends when the process is told to.

    Args:
        loop: The event loop.
        grace: Seconds that it may take, or None for any number.
        close: Called in the loop to begin to end.
        hurry: Called in the loop to end without waiting for what runs.

    Attributes:
        loop: The event loop.
        grace: See above.
        has_begun: Whether the process has been told to end, so that nothing is served there any more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        grace: float | None,
        close: Callable[[], None],
        hurry: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.grace = grace
        self.has_begun = False
        self._close = close
        self._hurry = hurry

    def begin(self, number: int) -> None:
        """Begin to end because of a signal; a second SIGINT is in a hurry."""
        # uvicorn forced to exit waits for every open connection from Python 3.12 on, and leaves no lifespan.
        end = self._hurry if self.has_begun and number == signal.SIGINT else self._close
        self.has_begun = True
        with suppress(RuntimeError):  # its loop has been closed just now, so there is nothing to end
            self.loop.call_soon_threadsafe(end)


_endings: tuple[ref[Ending], ...] = ()
"""Replaced rather than changed, since a signal may be heard while a thread adds to it."""
_adding = threading.Lock()
_watchdog: _Watchdog | None = None


def end_on_signals(ending: Ending) -> None:
    """End what is served in a loop when the process is told to end, and end the process when its grace period is over.

    Only the main thread can hear signals; elsewhere, nothing happens. Neither does it where a signal is ignored,
    ends the process at once by default, or raises KeyboardInterrupt, which is the program's own to catch.
    """
    global _endings  # noqa: PLW0603 - signals belong to the process, and so does this
    with _adding:
        _endings = (*(known for known in _endings if known() is not None), ref(ending))
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        is_ours = isinstance(handler, _Handler)
        if callable(handler) and not is_ours and handler is not signal.default_int_handler:
            signal.signal(number, _Handler(handler))


class _Handler:
    """Hears a signal, and hands it on to the handler that was there before.

    That one may in turn hand it on to an older one of these; only the first to hear it acts.
    """

    is_heard = False

    def __init__(self, previous: Callable[[int, FrameType | None], Any]) -> None:
        self._previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _Handler.is_heard:
            self._previous(number, frame)
            return
        _Handler.is_heard = True
        try:
            _hear(number)
            self._previous(number, frame)
        finally:
            _Handler.is_heard = False


def _hear(number: int) -> None:
    global _watchdog  # noqa: PLW0603
    endings = [ending for known in _endings if (ending := known()) and not ending.loop.is_closed()]
    for ending in endings:
        ending.begin(number)
    if _watchdog is not None and _watchdog.is_alive():
        if number == signal.SIGINT:
            _watchdog.hurry()
        return
    graces = [ending.grace for ending in endings if ending.grace is not None]
    if graces and len(graces) == len(endings):
        _watchdog = _Watchdog(number, [ending.loop for ending in endings], max(graces))
        _watchdog.start()


class _Watchdog(threading.Thread):
    """Ends the process, unless its event loops end before: then what follows is the program's own."""

    def __init__(self, number: int, loops: list[asyncio.AbstractEventLoop], grace: float) -> None:
        super().__init__(name="mcpkit-watchdog", daemon=True)
        self._status = 128 + number
        self._loops = loops
        self._deadline = time.monotonic() + grace + _SLACK

    def hurry(self) -> None:
        """Wait no longer than it takes to end in order."""
        self._deadline = min(self._deadline, time.monotonic() + _HASTE)

    def run(self) -> None:
        """Wait for the end of the loops, or of the time that they have."""
        while not all(loop.is_closed() for loop in self._loops):
            if time.monotonic() >= self._deadline:
                kill_workers()
                os._exit(self._status)
            time.sleep(0.02)
