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
from weakref import WeakSet

if TYPE_CHECKING:
    from .service import Service

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SLACK: Final = 0.5
"""Seconds after the grace period in which the process may still end by itself."""

_services: WeakSet[Service] = WeakSet()
_previous: dict[int, Callable[[int, FrameType | None], Any]] = {}
_watchdog: threading.Thread | None = None


def end_on_signals(service: Service) -> None:
    """Close a service when the process is told to end, and end the process when its grace period is over.

    Only the main thread can hear signals; elsewhere, and where a signal is ignored or ends the process at
    once by default, nothing happens.
    """
    _services.add(service)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and handler is not _hear:
            _previous[number] = handler
            signal.signal(number, _hear)


def _hear(number: int, frame: FrameType | None) -> None:
    services = list(_services)
    for service in services:
        with suppress(RuntimeError):  # its loop has been closed, so there is nothing to end
            service.loop.call_soon_threadsafe(service.close)
    _watch(number, services)
    _previous[number](number, frame)


def _watch(number: int, services: list[Service]) -> None:
    global _watchdog  # noqa: PLW0603 - signals belong to the process, and so does this
    graces = [service.settings.grace for service in services if not service.loop.is_closed()]
    limited = [grace for grace in graces if grace is not None]
    if _watchdog is not None or not limited or len(limited) < len(graces):
        return
    _watchdog = threading.Thread(
        target=_end, args=(number, services, max(limited) + _SLACK), name="mcpkit-watchdog", daemon=True
    )
    _watchdog.start()


def _end(number: int, services: list[Service], seconds: float) -> None:
    """End the process, unless its event loops have ended meanwhile: then what follows is the program's own."""
    global _watchdog  # noqa: PLW0603
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.02)
        if all(service.loop.is_closed() for service in services):
            _watchdog = None
            return
    os._exit(128 + number)
