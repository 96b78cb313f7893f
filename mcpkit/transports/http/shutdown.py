"""Shutdown on signals, in addition to the handlers of the ASGI server.

A server such as uvicorn waits for open connections before it sends the shutdown event to an app, and never sends it to
a mounted one. So the app handles signals first, ends its streams, and then calls the handler of the server.
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
from typing import Any
from weakref import ref

from ...execution.worker_processes import kill_workers

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SLACK = 0.3
"""Seconds after the grace period in which the process may still end by itself."""
_HASTE = 1.0
"""Seconds after a second Ctrl+C in which the lifespan can be left and the process can end by itself."""


class Ending:
    """Shutdown of the services in one event loop on a signal.

    Args:
        loop: The event loop.
        grace: Maximum seconds of the shutdown; None for no limit.
        close: Called in the loop to start the shutdown; its argument is True for an immediate one.

    Attributes:
        loop: The event loop.
        grace: Maximum seconds of the shutdown, or None.
        has_begun: Whether a signal was received, so that nothing is served any more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        grace: float | None,
        close: Callable[[bool], None],
    ) -> None:
        self.loop = loop
        self.grace = grace
        self.has_begun = False
        self._close = close

    def begin(self, number: int) -> None:
        """Start the shutdown on a signal. A second SIGINT makes it immediate."""
        # uvicorn forced to exit waits for every open connection from Python 3.12 on, and leaves no lifespan.
        in_haste = self.has_begun and number == signal.SIGINT
        self.has_begun = True
        with suppress(RuntimeError):  # its loop has been closed just now, so there is nothing to end
            self.loop.call_soon_threadsafe(self._close, in_haste)


_endings: tuple[ref[Ending], ...] = ()
"""Replaced rather than changed, since a signal may arrive while a thread adds to it."""
_adding = threading.Lock()
_deadline: float | None = None
"""When the process ends, by `time.monotonic`, if its event loops have not ended before."""


def end_on_signals(ending: Ending) -> None:
    """End the services of a loop on a signal, and the process when the grace period is over.

    Only the main thread can handle signals; in other threads nothing happens. The same holds if a signal is ignored,
    ends the process by default, or raises KeyboardInterrupt, which the program can catch itself.
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
    """Signal handler that also calls the previous one.

    The previous handler can call an older instance of this class. Only the outermost instance acts.
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
    global _deadline  # noqa: PLW0603
    endings = [ending for known in _endings if (ending := known()) and not ending.loop.is_closed()]
    for ending in endings:
        ending.begin(number)
    now = time.monotonic()
    if _deadline is not None:
        if number == signal.SIGINT:
            _deadline = min(_deadline, now + _HASTE)
        return
    graces = [ending.grace for ending in endings if ending.grace is not None]
    if graces and len(graces) == len(endings):
        _deadline = now + max(graces) + _SLACK
        loops = [ending.loop for ending in endings]
        threading.Thread(
            target=_watch, args=(loops, 128 + number), name="mcpkit-watchdog", daemon=True
        ).start()


def _watch(loops: list[asyncio.AbstractEventLoop], status: int) -> None:
    """End the process at the deadline, unless its event loops end before."""
    global _deadline  # noqa: PLW0603
    while not all(loop.is_closed() for loop in loops):
        if _deadline is not None and time.monotonic() >= _deadline:
            kill_workers()
            os._exit(status)
        time.sleep(0.02)
    _deadline = None
