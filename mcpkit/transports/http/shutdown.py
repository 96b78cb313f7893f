"""Signals: whoever runs the app handles them, and the app hears of them first.

A server such as uvicorn waits for open connections before it tells an app to shut down, and never tells one
that is mounted in another. So the app listens itself, ends its streams, and lets the server's handler go on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from ...running.processes import kill_workers

if TYPE_CHECKING:
    from .service import Service

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SLACK: Final = 0.3
"""Seconds after the grace period in which the process may still end by itself."""
_HASTE: Final = 1.0
"""Seconds after a second Ctrl+C in which the lifespan may be left and the process end by itself."""

_services: tuple[ref[Service], ...] = ()
"""Replaced rather than changed, since a signal may be heard while a thread adds to it."""
_adding = threading.Lock()
_watchdog: _Watchdog | None = None


def end_on_signals(service: Service) -> None:
    """Close a service when the process is told to end, and end the process when its grace period is over.

    Only the main thread can hear signals; elsewhere, nothing happens. Neither does it where a signal is ignored,
    ends the process at once by default, or raises KeyboardInterrupt, which is the program's own to catch.
    """
    global _services  # noqa: PLW0603 - signals belong to the process, and so does this
    with _adding:
        _services = (*(known for known in _services if known() is not None), ref(service))
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
    services = [service for known in _services if (service := known()) and not service.loop.is_closed()]
    for service in services:
        # uvicorn forced to exit waits for every open connection from Python 3.12 on, and leaves no lifespan.
        end = service.hurry if service.is_last and number == signal.SIGINT else service.close
        service.is_last = True
        with suppress(RuntimeError):  # its loop has been closed just now, so there is nothing to end
            service.loop.call_soon_threadsafe(end)
    if _watchdog is not None and _watchdog.is_alive():
        if number == signal.SIGINT:
            _watchdog.hurry()
        return
    graces = [service.settings.grace for service in services]
    limited = [grace for grace in graces if grace is not None]
    if limited and len(limited) == len(graces):
        _watchdog = _Watchdog(number, services, max(limited))
        _watchdog.start()


class _Watchdog(threading.Thread):
    """Ends the process, unless its event loops end before: then what follows is the program's own."""

    def __init__(self, number: int, services: list[Service], grace: float) -> None:
        super().__init__(name="mcpkit-watchdog", daemon=True)
        self._status = 128 + number
        self._loops = [service.loop for service in services]
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
