"""Watchdog that ends the process when its grace period is over, even if its threads are blocked.

An event loop that is blocked in user code neither detects the end of input nor handles a signal, so a separate thread
monitors both. Only code that never releases the interpreter lock defeats it.

The interpreter runs a signal handler in the main thread, between two instructions: never, while that is inside a long
call. But it writes the number of a signal to the wake-up descriptor at once, in C, and the thread reads it there.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..execution.worker_processes import kill_workers
from .pipes import PipeInput
from .standard_streams import replace_lost_stderr

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# The watchdog that handles signals. A forked child must handle them as any other process does.
_active: Watchdog | None = None


class Watchdog:
    """Context manager that limits the time to end after SIGINT, SIGTERM (in the main thread) or the end of input.

    If the block takes longer, the process is ended immediately, with status 128 + the signal's number, or 0 at the end
    of input. A second SIGINT ends it at once. After a block that ended in time, other threads can delay the end of the
    process for the rest of the period. An ignored signal stays ignored.

    Args:
        grace: The period, in seconds.
        ends_on_second_sigterm: A second SIGTERM ends the process at once, too.

    Attributes:
        grace: The period, in seconds.
        signal: Number of the first signal; None before one.
    """

    def __init__(self, grace: float, *, ends_on_second_sigterm: bool = False) -> None:
        self.grace = grace
        self.signal: int | None = None
        self._urgent = _SIGNALS if ends_on_second_sigterm else _SIGNALS[:1]
        self._wakeup, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        # The handlers that were replaced; None outside of the main thread.
        self._handlers: dict[int, Any] | None = None
        self._wakeup_fd = -1
        self._on_signal: Callable[[], object] | None = None
        self._input: PipeInput | None = None
        self._chunks_read = 0
        self._deadline: float | None = None
        self._has_input_ended = self._is_stderr_lost = False
        self._has_begun = self._has_ended = self._limits_exit = False

    def __enter__(self) -> Watchdog:
        global _active  # noqa: PLW0603 - signals belong to the process, and so does this
        if threading.current_thread() is threading.main_thread():
            found = {number: signal.getsignal(number) for number in _SIGNALS}
            self._handlers = {n: each for n, each in found.items() if each not in (signal.SIG_IGN, None)}
            self._wakeup_fd = signal.set_wakeup_fd(self._waker.fileno())
            for number in self._handlers:
                signal.signal(number, self._handle)
            _active = self
        threading.Thread(target=self._run, name="mcpkit-watchdog", daemon=True).start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self._limits_exit = error_type is None and self._handlers is not None
        self.restore_signals(self._wakeup_fd)
        self._has_ended = True
        self._waker.close()  # which wakes the thread

    def restore_signals(self, wakeup_fd: int) -> None:
        """Restore the previous signal handlers, and set the wake-up descriptor."""
        global _active  # noqa: PLW0603
        if self._handlers is not None:
            _active = None
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup_fd)

    def watch(self, pipe: PipeInput | None, *, on_signal: Callable[[], object]) -> None:
        """Monitor signals, and the closing of the other end of the input, which a busy reader would detect late.

        Args:
            pipe: The input; None if there is none. While it is being read, it has not ended.
            on_signal: Called in the thread of the watchdog at the first signal.
        """
        self._input, self._on_signal = pipe, on_signal
        if self.signal is not None:
            on_signal()
        self._waker.send(b"\0")

    def unwatch(self) -> None:
        """Stop monitoring the input, before its descriptor is closed."""
        self._input = self._on_signal = None
        self._waker.send(b"\0")

    def begin(self) -> None:
        """Start the grace period, after all input has been read."""
        self._has_begun = True
        self._deadline = time.monotonic() + self.grace
        self._waker.send(b"\0")

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Write the signal if other code, such as asyncio, has replaced the wake-up descriptor."""
        own = self._waker.fileno()
        current = signal.set_wakeup_fd(own)
        if current != own:
            signal.set_wakeup_fd(current)
            self._waker.send(bytes([number]))

    # The thread

    def _run(self) -> None:
        while not self._has_ended:
            if self._deadline is not None and time.monotonic() >= self._deadline:
                pipe = None if self._has_begun else self._input
                if pipe is not None and pipe.chunks != self._chunks_read:
                    self._await_end_of_input(pipe)  # some of it has been read in this period
                else:
                    self._end_process()
            for number in self._wait():
                if number and self.signal is not None and number in self._urgent:
                    self._end_process()
                elif number and self.signal is None:
                    self.signal = number
                    if not self._has_begun:
                        self._has_begun = True
                        self._deadline = time.monotonic() + self.grace
                    if (on_signal := self._on_signal) is not None:
                        on_signal()
        self._wakeup.close()
        if self._limits_exit and self._deadline is not None:
            threading.main_thread().join()
            remaining = self._deadline - time.monotonic()
            time.sleep(remaining if remaining > 0 else self.grace)
            self._end_process()

    def _await_end_of_input(self, pipe: PipeInput) -> None:
        """Start a grace period to read a closed input."""
        self._has_input_ended = True
        self._chunks_read = pipe.chunks
        self._deadline = time.monotonic() + self.grace

    def _wait(self) -> bytes:
        """Wait for an event or the deadline, and return the bytes that wake the thread: signals, or zeros."""
        remaining = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        if sys.platform == "win32":
            self._wakeup.settimeout(remaining)
            try:
                return self._wakeup.recv(64)
            except TimeoutError:
                return b""
        else:
            poll = select.poll()
            poll.register(self._wakeup, select.POLLIN)
            pipe = None if self._has_begun or self._has_input_ended else self._input
            if pipe is not None:
                poll.register(pipe.descriptor, getattr(select, "POLLRDHUP", 0))
            if not self._is_stderr_lost:
                poll.register(2, 0)
            ready = dict(poll.poll(None if remaining is None else remaining * 1000))
            if pipe is not None and pipe.descriptor in ready and pipe is self._input:
                self._await_end_of_input(pipe)
            if 2 in ready:
                self._is_stderr_lost = True
                replace_lost_stderr()
            return self._wakeup.recv(64) if self._wakeup.fileno() in ready else b""

    def _end_process(self) -> None:
        cause = "the end of input" if self.signal is None else signal.Signals(self.signal).name
        notice = f"mcpkit: the server did not stop within {self.grace:g} s after {cause}; the process is terminated\n"
        try:
            if sys.platform != "win32":
                poll = select.poll()
                poll.register(2, select.POLLOUT)
            if sys.platform == "win32" or poll.poll(0):
                os.write(2, notice.encode())
        finally:
            kill_workers()
            os._exit(0 if self.signal is None else 128 + self.signal)


def _restore_in_child() -> None:
    if _active is not None:
        _active.restore_signals(-1)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_restore_in_child)
