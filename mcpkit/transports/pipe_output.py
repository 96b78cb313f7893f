"""Writing of messages to a descriptor in an event loop, without blocking the loop.

A descriptor that other processes may share stays blocking: changing that would change the open file itself. Data that
certainly fits is written immediately, and a thread writes the rest. A descriptor of this process only is non-blocking,
and the loop writes everything.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from .pipe_size import enlarge

_FULL = 1024 * 1024
"""Bytes waiting for the host above which the output counts as full."""

_ROOM = 256 * 1024
"""Bytes waiting for the host below which the output has room again."""

_AT_ONCE = 64 * 1024
"""The most that the loop writes itself, in bytes: what a pipe holds by default on Linux."""

_BLOCKS = 16
"""The most blocks that one write takes: what every system has room for."""

_LONGEST_WAIT = 0.001
"""Seconds after a write at which the next message leaves at once, although the turn goes on."""

logger = logging.getLogger(__name__)


class PipeOutput:
    """Sends messages, one per line, in order.

    The first message of a turn of the loop is written immediately. Messages within a millisecond after it are written
    together at the end of the turn. All methods must be called in the thread of the loop.

    Args:
        descriptor: The descriptor. No other code may write to it meanwhile.
        on_room: Called in the loop when a full output has room again.
        on_broken: Called in the loop when the other end is closed. Messages after that are dropped.
        is_own: Whether the descriptor is a non-blocking pipe that no other process shares.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        on_room: Callable[[], None],
        on_broken: Callable[[], None],
        is_own: bool = False,
    ) -> None:
        self.is_full = False
        self.is_broken = False
        self._descriptor = descriptor
        self._on_room = on_room
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._is_gathering = False
        self._last_write = 0.0
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        is_polled = is_own and sys.platform != "win32"
        writing = _PolledWriting if is_polled else _WritingThread
        self._rest: _PolledWriting | _WritingThread = writing(descriptor, self._loop, self._after_write)
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._has_written = asyncio.Event()
        self._poll, self._piece = (_always, _AT_ONCE) if is_polled else (_poll_of(descriptor), _PIPE_BUF)
        enlarge(
            descriptor
        )  # what is long leaves without taking turns with a host that reads little at a time

    def send(self, message: bytes) -> None:
        """Send one message, given without its newline."""
        if len(message) >= _AT_ONCE:  # too long to be copied for a newline, or for its neighbours
            if self._gathered:
                self._write_gathered()
            if not self.is_broken:
                self._rest.write(message, b"\n")
        elif not self._is_gathering:
            self._is_gathering = True
            self._last_write = time.monotonic()
            self._loop.call_soon(self._end_turn)
            self._write(message + b"\n")
        else:
            self._gathered.append(message)
            self._gathered_size += len(message) + 1
            if time.monotonic() - self._last_write > _LONGEST_WAIT:
                self._write_gathered()
        if self._rest.unwritten + self._gathered_size > _FULL and not self.is_broken:
            self.is_full = True
            self._has_room.clear()

    @property
    def is_writing(self) -> bool:
        """True if a write is in progress in the system or in a thread."""
        return self._rest.unwritten > 0

    async def ready(self) -> None:
        """Wait until the output has room."""
        await self._has_room.wait()

    async def flush(self) -> None:
        """Wait until everything has been written or dropped."""
        self._end_turn()
        while self._rest.unwritten and not self.is_broken:
            self._has_written.clear()
            await self._has_written.wait()

    def close(self, *, with_descriptor: bool = False) -> None:
        """Stop writing, and wake up callers that wait for room.

        Args:
            with_descriptor: Close the descriptor as well, once no write is in progress.
        """
        self.is_broken = True
        self.is_full = False
        self._has_room.set()
        self._rest.close()
        if with_descriptor:
            self._rest.close_descriptor()

    def _end_turn(self) -> None:
        self._is_gathering = False
        if self._gathered:
            self._write_gathered()
            self._make_room()

    def _write_gathered(self) -> None:
        self._gathered.append(b"")
        data = b"\n".join(self._gathered)
        self._gathered.clear()
        self._gathered_size = 0
        self._last_write = time.monotonic()
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self.is_broken:
            return
        if not self._rest.unwritten and len(data) <= _AT_ONCE:
            try:
                data = self._write_what_fits(data)
            except OSError as error:
                self._break(error)
                return
        if data:
            self._rest.write(data)

    def _write_what_fits(self, data: bytes) -> bytes:
        # POSIX: where poll() reports room, a write of at most PIPE_BUF bytes does not block.
        position = 0
        while position < len(data) and self._poll(0):
            try:
                position += os.write(self._descriptor, data[position : position + self._piece])
            except BlockingIOError:  # it is our own, or the host made the pipe non-blocking
                break
        return data[position:]

    def _after_write(self, error: OSError | None) -> None:
        self._has_written.set()
        if error is not None:
            self._break(error)
        else:
            self._make_room()

    def _make_room(self) -> None:
        if self.is_full and self._rest.unwritten + self._gathered_size <= _ROOM:
            self.is_full = False
            self._has_room.set()
            self._on_room()

    def _break(self, error: OSError) -> None:
        if self.is_broken:
            return
        logger.info("the client closed standard output, so no more messages are sent: %s", error)
        self.is_broken = True
        self.is_full = False
        self._has_room.set()
        self._on_broken()


class _PolledWriting:
    """Writes in the loop whenever the descriptor has room.

    Args:
        descriptor: The non-blocking descriptor.
        loop: The running loop.
        after_write: Called after each write, with the error if there was one.
    """

    def __init__(
        self,
        descriptor: int,
        loop: asyncio.AbstractEventLoop,
        after_write: Callable[[OSError | None], None],
    ) -> None:
        self.unwritten = 0
        """Bytes given and not yet written."""
        self._descriptor = descriptor
        self._loop = loop
        self._after_write = after_write
        self._blocks: deque[memoryview] = deque()

    def write(self, *blocks: bytes) -> None:
        if not self._blocks:
            self._loop.add_writer(self._descriptor, self._run)
        self._blocks.extend(map(memoryview, blocks))
        self.unwritten += sum(map(len, blocks))

    def close(self) -> None:
        if self._blocks:
            self._blocks.clear()
            self._loop.remove_writer(self._descriptor)

    def close_descriptor(self) -> None:
        os.close(self._descriptor)

    def _run(self) -> None:
        try:
            written = _write_some(self._descriptor, self._blocks)
        except BlockingIOError:
            return
        except OSError as error:
            self.close()
            self._after_write(error.with_traceback(None))
            return
        self.unwritten -= written
        _take_off(written, self._blocks)
        if not self._blocks:
            self._loop.remove_writer(self._descriptor)
        self._after_write(None)


class _WritingThread:
    """Writes in a thread, because writes can block. The thread starts on the first use.

    Args:
        descriptor: The descriptor.
        loop: Loop in which `after_write` is called.
        after_write: Called after each write, with the error if there was one.
    """

    def __init__(
        self,
        descriptor: int,
        loop: asyncio.AbstractEventLoop,
        after_write: Callable[[OSError | None], None],
    ) -> None:
        self.unwritten = 0
        """Bytes given to the thread and not yet written."""
        self._descriptor = descriptor
        self._loop = loop
        self._after_write = after_write
        self._blocks: list[bytes] = []
        self._changed = threading.Condition()
        self._is_started = False
        self._is_closed = False
        self._owes_close = False

    def write(self, *blocks: bytes) -> None:
        with self._changed:
            self._blocks += blocks
            self.unwritten += sum(map(len, blocks))
            self._changed.notify()
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="mcpkit-stdout", daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def close_descriptor(self) -> None:
        """Close the descriptor, after a write in progress."""
        with self._changed:
            self._owes_close = self._is_started
        if not self._owes_close:
            os.close(self._descriptor)

    def _run(self) -> None:
        try:
            self._write_all()
        finally:
            with self._changed:
                self._is_started = False
                if self._owes_close:
                    os.close(self._descriptor)

    def _write_all(self) -> None:
        error: OSError | None = None
        while error is None:
            with self._changed:
                while not self._blocks and not self._is_closed:
                    self._changed.wait()
                blocks = deque(memoryview(block) for block in self._blocks)
                self._blocks.clear()
            size = sum(map(len, blocks))
            error = self._write(blocks)
            del blocks  # what was said must not live until more is
            with self._changed:
                if self._is_closed:
                    return
                self.unwritten -= size
                with suppress(RuntimeError):  # the loop has been closed
                    self._loop.call_soon_threadsafe(self._after_write, error)

    def _write(self, blocks: deque[memoryview]) -> OSError | None:
        while blocks and not self._is_closed:
            try:
                written = _write_some(self._descriptor, blocks)
            except BlockingIOError:  # the host made the pipe non-blocking
                _poll_of(self._descriptor)(None)
                continue
            except OSError as error:
                return error.with_traceback(None)  # which would hold what could not be written
            _take_off(written, blocks)
        return None


def _take_off(size: int, blocks: deque[memoryview]) -> None:
    """Remove a number of bytes from the beginning."""
    while blocks and size >= len(blocks[0]):
        size -= len(blocks.popleft())
    if size:
        blocks[0] = blocks[0][size:]


def _always(timeout: float | None) -> object:
    """Return True: there may be room, which the write itself detects."""
    return True


if sys.platform == "win32":  # it cannot tell whether a pipe has room, so the thread writes everything
    _PIPE_BUF = 0

    def _write_some(descriptor: int, blocks: deque[memoryview]) -> int:
        return os.write(descriptor, blocks[0])

    def _poll_of(descriptor: int) -> Callable[[float | None], object]:
        return lambda timeout: None

else:
    _PIPE_BUF = select.PIPE_BUF

    def _write_some(descriptor: int, blocks: deque[memoryview]) -> int:
        return os.writev(descriptor, tuple(islice(blocks, _BLOCKS)))

    def _poll_of(descriptor: int) -> Callable[[float | None], object]:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return poll.poll
