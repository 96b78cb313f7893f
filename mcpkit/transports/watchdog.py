"""Watchdog that ends the process when its grace period is over, even if its threads are blocked.

An event loop that is blocked in user code neither detects the end of input nor handles a signal, so a separate thread
monitors both. Only code that never releases the interpreter lock defeats it.
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

from ..execution.worker_processes import kill_workers
from .pipe_input import PipeInput
from .signals import SignalBytes
from .standard_streams import replace_lost_stderr

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Watchdog:
    """Context manager that limits the time to end after SIGINT, SIGTERM (in the main thread) or the end of input.

    If the block takes longer, the process is ended immediately, with status 128 + the signal's number, or 0 at the end
    of input. A second SIGINT ends it at once. After a block that ended in time, other threads can delay the end of the
    process for the rest of the period.

    Args:
        grace: The period, in seconds.
        is_hasty: A second SIGTERM ends the process at once, too.
    """

    def __init__(self, grace: float, *, is_hasty: bool = False) -> None:
        self.grace = grace
        self._hasty = _SIGNALS if is_hasty else _SIGNALS[:1]
        self.signal: int | None = None
        """The first signal that came."""
        self._bell, self._ringer = socket.socketpair()
        self._ringer.setblocking(False)
        self._signals: SignalBytes | None = None
        self._on_signal: Callable[[], object] | None = None
        self._input: PipeInput | None = None
        self._chunks_seen = 0
        self._is_hung_up = False
        self._is_stderr_lost = False
        self._has_begun = False
        self._deadline: float | None = None
        self._is_left = False
        self._may_linger = False

    def __enter__(self) -> Watchdog:
        if threading.current_thread() is threading.main_thread():
            self._signals = SignalBytes(self._ringer)
        threading.Thread(target=self._run, name="mcpkit-watchdog", daemon=True).start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self._may_linger = error_type is None and self._signals is not None
        if self._signals is not None:
            self._signals.restore()
        self._is_left = True
        self._ringer.close()  # which rings

    def watch(self, pipe: PipeInput | None, *, on_signal: Callable[[], object]) -> None:
        """Monitor signals, and the closing of the other end of the input, which a busy reader would detect late.

        Args:
            pipe: The input; None if there is none. While it is being read, it has not ended.
            on_signal: Called in the thread of the watchdog at the first signal.
        """
        self._input, self._on_signal = pipe, on_signal
        if self.signal is not None:
            on_signal()
        self._ring()

    def unwatch(self) -> None:
        """Stop monitoring the input, before its descriptor is closed."""
        self._input = self._on_signal = None
        self._ring()

    def begin(self) -> None:
        """Start the grace period, after all input has been read."""
        self._start_clock()
        self._ring()

    def _ring(self) -> None:
        self._ringer.send(b"\0")

    def _start_clock(self) -> None:
        self._has_begun = True
        self._deadline = time.monotonic() + self.grace

    def _run(self) -> None:
        while not self._is_left:
            if self._is_over():
                self._end_process()
            for number in self._wait():
                if number:
                    self._take_signal(number)
        self._bell.close()
        if self._may_linger and self._deadline is not None:
            threading.main_thread().join()
            remaining = self._deadline - time.monotonic()
            time.sleep(remaining if remaining > 0 else self.grace)
            self._end_process()

    def _remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _is_over(self) -> bool:
        if self._remaining() != 0:
            return False
        if self._has_begun or self._input is None or self._input.chunks == self._chunks_seen:
            return True
        self._hang_up(self._input)
        return False

    def _hang_up(self, pipe: PipeInput) -> None:
        """Start a grace period to read a closed input. It starts again whenever some of it has been read."""
        self._is_hung_up = True
        self._chunks_seen = pipe.chunks
        self._deadline = time.monotonic() + self.grace

    def _take_signal(self, number: int) -> None:
        if self.signal is not None and number in self._hasty:
            self._end_process()
        if self.signal is None:
            self.signal = number
            if not self._has_begun:
                self._start_clock()
            on_signal = self._on_signal
            if on_signal is not None:
                on_signal()

    def _end_process(self) -> None:
        cause = "the end of input" if self.signal is None else signal.Signals(self.signal).name
        notice = (
            f"mcpkit: the server did not stop within {self.grace:g} s after {cause}; the process is "
            "terminated\n"
        )
        try:
            _write_unless_blocked(2, notice.encode())
        finally:
            kill_workers()
            os._exit(0 if self.signal is None else 128 + self.signal)

    if sys.platform == "win32":

        def _wait(self) -> bytes:
            self._bell.settimeout(self._remaining())
            try:
                return self._bell.recv(64)
            except TimeoutError:
                return b""

    else:

        def _wait(self) -> bytes:
            poll = select.poll()
            poll.register(self._bell, select.POLLIN)
            pipe = None if self._has_begun or self._is_hung_up else self._input
            if pipe is not None:
                poll.register(pipe.descriptor, getattr(select, "POLLRDHUP", 0))
            if not self._is_stderr_lost:
                poll.register(2, 0)
            remaining = self._remaining()
            ready = dict(poll.poll(None if remaining is None else remaining * 1000))
            if pipe is not None and pipe.descriptor in ready and pipe is self._input:
                self._hang_up(pipe)
            if 2 in ready:
                self._is_stderr_lost = True
                replace_lost_stderr()
            return self._bell.recv(64) if self._bell.fileno() in ready else b""


def _write_unless_blocked(descriptor: int, data: bytes) -> None:
    if sys.platform != "win32":
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        if not poll.poll(0):
            return
    os.write(descriptor, data)
