"""Signals as bytes on a socket, so that a thread can wait for them.

The interpreter runs a signal handler in the main thread, between two instructions: never, while that is
inside a long call. What it does at once, in C, is to write the signal's number to the wake-up descriptor.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_installed: SignalBytes | None = None
"""What a forked child has to undo: it must die of a signal as any process does."""


class SignalBytes:
    """Writes the number of each SIGINT and SIGTERM as a byte to a socket, until `restore` is called.

    It works only in the main thread, as Python requires. An ignored signal stays ignored.

    Args:
        sink: A non-blocking socket.
    """

    def __init__(self, sink: socket.socket) -> None:
        global _installed  # noqa: PLW0603 - handlers belong to the process, too
        self._sink = sink
        self._previous = {
            number: handler
            for number in _SIGNALS
            if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
        }
        self._previous_descriptor = signal.set_wakeup_fd(sink.fileno())
        for number in self._previous:
            signal.signal(number, self._handle)
        _installed = self

    def restore(self, descriptor: int | None = None) -> None:
        """Restore the previous handlers, and the previous wake-up descriptor or another one."""
        global _installed  # noqa: PLW0603
        _installed = None
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_descriptor if descriptor is None else descriptor)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Write the signal if other code, such as asyncio, has replaced the wake-up descriptor."""
        own = self._sink.fileno()
        current = signal.set_wakeup_fd(own)
        if current != own:
            signal.set_wakeup_fd(current)
            self._sink.send(bytes([number]))


def _restore_in_child() -> None:
    if _installed is not None:
        _installed.restore(-1)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_restore_in_child)
