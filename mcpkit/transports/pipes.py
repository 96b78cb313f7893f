"""Lines over pipes: framing, and reading and writing in an event loop that is never blocked.

One JSON message a line is the framing of the stdio transport (revision 2026-07-28, "stdio", "Messages"), which the
specification recommends for every reliable byte stream, such as a Unix socket.

A descriptor that other processes may share is never made non-blocking, because that would change the open file itself,
which the host, a terminal or a sibling process uses too.
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
from io import BytesIO
from queue import SimpleQueue

from .._utils.concurrency import call_in_loop
from .._utils.exceptions import ProtocolError, TooLongError
from ..protocol.jsonrpc import BYTE_ORDER_MARK

logger = logging.getLogger(__name__)

Notify = Callable[[], None]

# Framing

MAX_LINE = 64 * 1024 * 1024  # the default limit of a line, in bytes: room for a large image or file in base64

_BLANK = b" \t\r\n"

_BEGINNING = 4096  # bytes of an overlong line that are kept to find its request id

_ENDING = 1024  # the same of its end


class Framing:
    r"""Splits a byte stream into messages.

    Only `\n` ends a line, because JSON strings can contain the other line separators of Unicode. White space around a
    message, such as the `\r` of `\r\n`, and a byte order mark before it are removed. Blank lines are ignored. Each
    connection needs its own framing:

        for line in framing.feed(chunk):
            connection.receive(line)

    Args:
        max_line: Maximum length of a line in bytes, without its newline. A longer line is reported once and skipped
            without being stored.
        waits_for_end: Report such a line with its end, once that has been received, instead of immediately.
    """

    __slots__ = ("_max_line", "_partial", "_skipped", "_waits_for_end")

    def __init__(self, max_line: int = MAX_LINE, *, waits_for_end: bool = False) -> None:
        self._max_line, self._waits_for_end = max_line, waits_for_end
        self._partial: BytesIO | None = None  # its content becomes a line without being copied
        self._skipped: TooLongError | None = None

    def feed(self, chunk: bytes) -> list[bytes | ProtocolError]:
        """Process the next bytes of the stream.

        Args:
            chunk: Any number of bytes, split anywhere.

        Returns:
            The completed lines without their newlines, in order, with an error in place of each line that is too long.
        """
        lines: list[bytes | ProtocolError] = []
        start, end = 0, chunk.find(b"\n")
        while end >= 0:
            if self._partial is None and self._skipped is None and end - start <= self._max_line:
                line = chunk[start:end].strip(_BLANK)
            else:
                self._extend(chunk[start:end].rstrip(_BLANK), lines)
                line = b"" if self._partial is None else self._partial.getvalue().strip(_BLANK)
                if self._skipped is not None and self._waits_for_end:
                    lines.append(self._skipped)
                self._partial = self._skipped = None
            # The comparison is the faster test, and false for any JSON.
            if line >= BYTE_ORDER_MARK and line.startswith(BYTE_ORDER_MARK):
                line = line[len(BYTE_ORDER_MARK) :].lstrip(_BLANK)
            if line:
                lines.append(line)
            start = end + 1
            end = chunk.find(b"\n", start)
        if start < len(chunk):
            self._extend(chunk[start:], lines)
        return lines

    def finish(self) -> list[bytes | ProtocolError]:
        """Process the end of the stream.

        Returns:
            The last line if no newline ended it; otherwise an empty list.
        """
        return self.feed(b"\n")

    def _extend(self, piece: bytes, lines: list[bytes | ProtocolError]) -> None:
        """Add a piece of an incomplete line. Once the line is too long, keep only its beginning and its end."""
        if self._skipped is not None:
            self._skipped.ending = (self._skipped.ending + piece)[-_ENDING:]
            return
        if self._partial is None:
            self._partial = BytesIO()
        if self._partial.tell() + len(piece) <= self._max_line:
            self._partial.write(piece)
            return
        before = self._partial.getbuffer()
        beginning = (bytes(before[:_BEGINNING]) + piece[:_BEGINNING])[:_BEGINNING].lstrip(_BLANK)
        self._skipped = TooLongError(
            f"Message too long: the limit is {self._max_line} bytes per line",
            beginning.removeprefix(BYTE_ORDER_MARK).lstrip(_BLANK),
            (bytes(before[-_ENDING:]) + piece[-_ENDING:])[-_ENDING:],
        )
        self._partial = None
        if not self._waits_for_end:
            lines.append(self._skipped)


# Reading

_CHUNK = 64 * 1024  # the usual capacity of a pipe on Linux; a longer read would not be filled

# Size of the read after a full one: a longer one would save few turns of the loop, and take memory twice.
_LONG_CHUNK = 128 * 1024


class PipeInput:
    """Reads a descriptor until it ends, in the running event loop, with pause and resume.

    The loop reports input where it can poll the descriptor. Otherwise (a regular file on Linux; any pipe on Windows) a
    thread reads, one chunk at a time.

    Args:
        descriptor: The descriptor. No other code may read it meanwhile.
        take: Called in the loop with each chunk, and once with `b""` at the end of input. A chunk in transit at a pause
            is still delivered.

    Attributes:
        descriptor: The descriptor.
        chunks: Number of reads, which distinguishes a busy loop from a blocked one.
    """

    def __init__(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        self.descriptor = descriptor
        self.chunks = 0
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._size = _CHUNK
        self._is_paused = self._is_closed = False
        # Set when the thread may read the next chunk; None without a thread.
        self._may_read: threading.Event | None = None
        try:
            self._loop.add_reader(descriptor, self._read_when_ready)
        except (PermissionError, NotImplementedError):
            self._may_read = threading.Event()
            self._may_read.set()
            _start_thread("mcpkit-stdin", self._read_in_thread, self._may_read)

    def pause(self) -> None:
        """Stop reading."""
        self._is_paused = True
        if self._may_read is None:
            self._loop.remove_reader(self.descriptor)

    def resume(self) -> None:
        """Continue reading after `pause`."""
        self._is_paused = False
        if self._may_read is None:
            self._loop.add_reader(self.descriptor, self._read_when_ready)
        else:
            self._may_read.set()

    def close(self) -> None:
        """Stop reading permanently."""
        self._is_closed = True
        if self._may_read is None:
            self._loop.remove_reader(self.descriptor)
        else:
            self._may_read.set()

    def _read(self) -> bytes | None:
        try:
            chunk = os.read(self.descriptor, self._size)
        except BlockingIOError:  # the host made the pipe non-blocking, and another process read from it
            return None
        except OSError as error:  # a terminal that was closed (EIO), a socket with a lost peer (ECONNRESET)
            logger.info("reading standard input failed, so it is treated as closed: %s", error)
            return b""
        if len(chunk) < _CHUNK:
            self._size = _CHUNK
        elif self._size == _CHUNK:
            self._size = _LONG_CHUNK
            _enlarge(self.descriptor)
        return chunk

    def _read_when_ready(self) -> None:
        self._deliver(self._read())

    def _read_in_thread(self, may_read: threading.Event) -> None:
        while True:
            may_read.wait()
            may_read.clear()
            if self._is_closed:
                return
            chunk = self._read()
            try:
                self._loop.call_soon_threadsafe(self._deliver, chunk)
            except RuntimeError:  # the loop was closed meanwhile
                return
            del chunk  # it must not live until there is another

    def _deliver(self, chunk: bytes | None) -> None:
        if self._is_closed or chunk is None:
            return
        if not chunk:
            self.close()
        self.chunks += 1
        self._take(chunk)
        if self._may_read is not None and not self._is_paused:
            self._may_read.set()


# Writing

_PIPE_SIZE = 1024 * 1024  # capacity of enlarged pipes in bytes, the default maximum of Linux
_FULL = 1024 * 1024  # bytes waiting for the reader above which the output counts as full
_ROOM = 256 * 1024  # bytes waiting for the reader below which the output has room again
_PIECE = 64 * 1024  # bytes of one write to a pipe of our own: what it holds by default on Linux

# Seconds after a write at which the next message is written at once, although the turn of the loop continues.
_GATHER_TIME = 0.001


class PipeOutput:
    """Sends messages, one per line, in order.

    The first message of a turn of the loop is written immediately. Messages within a millisecond after it are written
    together at the end of the turn. What does not fit is written when the loop reports room in the pipe; on Windows,
    which cannot report that, a thread writes everything. All methods must be called in the thread of the loop.

    Args:
        descriptor: The descriptor. No other code may write to it meanwhile.
        on_room: Called in the loop when a full output has room again.
        on_broken: Called in the loop when the other end is closed. Messages after that are dropped.
        is_own: Whether the descriptor is a non-blocking pipe that no other process shares.
    """

    _uses_thread = sys.platform == "win32"

    def __init__(self, descriptor: int, *, on_room: Notify, on_broken: Notify, is_own: bool = False) -> None:
        self.is_full = self.is_broken = False
        self._descriptor = descriptor
        self._on_room, self._on_broken = on_room, on_broken
        self._loop = asyncio.get_running_loop()
        self._has_room = asyncio.Event()
        self._has_room.set()
        # Messages of this turn of the loop
        self._is_gathering = False
        self._last_write = 0.0
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        # What did not fit
        self._blocks: deque[memoryview] = deque()
        self._unwritten = 0
        self._has_written = asyncio.Event()
        self._thread_queue: SimpleQueue[bytes | None] | None = None
        self._thread_closes_descriptor = False
        self._piece = _PIECE
        self._poll: Callable[[float], object] | None = None
        if sys.platform != "win32" and not is_own:
            # POSIX: where poll() reports room, a write of at most PIPE_BUF bytes does not block.
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            self._piece, self._poll = select.PIPE_BUF, poll.poll
        _enlarge(descriptor)  # so that a long message needs few turns of a reader that reads little at a time

    @property
    def is_writing(self) -> bool:
        """True if a write is in progress in the system or in a thread."""
        return self._unwritten > 0

    def send(self, message: bytes) -> None:
        """Send one message, given without its newline."""
        if len(message) >= _PIECE:  # too long to be copied for a newline, or for its neighbours
            if self._gathered:
                self._write_gathered()
            self._write(message)
            self._write(b"\n")
        elif not self._is_gathering:
            self._is_gathering = True
            self._last_write = time.monotonic()
            self._loop.call_soon(self._end_turn)
            self._write(message + b"\n")
        else:
            self._gathered.append(message)
            self._gathered_size += len(message) + 1
            if time.monotonic() - self._last_write > _GATHER_TIME:
                self._write_gathered()
        if self._unwritten + self._gathered_size > _FULL and not self.is_broken:
            self.is_full = True
            self._has_room.clear()

    async def ready(self) -> None:
        """Wait until the output has room."""
        await self._has_room.wait()

    async def flush(self) -> None:
        """Wait until everything has been written or dropped."""
        self._end_turn()
        while self._unwritten and not self.is_broken:
            self._has_written.clear()
            await self._has_written.wait()

    def close(self, *, with_descriptor: bool = False) -> None:
        """Stop writing, and wake up callers that wait for room.

        Args:
            with_descriptor: Close the descriptor as well, once no write is in progress.
        """
        self._stop()
        if self._thread_queue is not None:
            self._thread_closes_descriptor = with_descriptor
            self._thread_queue.put(None)
        elif with_descriptor:
            os.close(self._descriptor)

    def _stop(self) -> None:
        self.is_broken, self.is_full = True, False
        if self._blocks:
            self._blocks.clear()
            self._loop.remove_writer(self._descriptor)
        self._has_room.set()
        self._has_written.set()

    def _end_turn(self) -> None:
        self._is_gathering = False
        if self._gathered:
            self._write_gathered()
            self._after_write(0)

    def _write_gathered(self) -> None:
        self._gathered.append(b"")
        data = b"\n".join(self._gathered)
        self._gathered.clear()
        self._gathered_size = 0
        self._last_write = time.monotonic()
        self._write(data)

    def _write(self, data: bytes) -> None:
        """Write what fits now, and the rest later."""
        if self.is_broken:
            return
        if self._uses_thread:
            self._unwritten += len(data)
            if self._thread_queue is None:
                queue = self._thread_queue = SimpleQueue()
                _start_thread("mcpkit-stdout", self._write_in_thread, queue)
            self._thread_queue.put(data)
            return
        position = 0 if self._blocks else self._write_now(data)
        if position < len(data) and not self.is_broken:
            if not self._blocks:
                self._loop.add_writer(self._descriptor, self._write_when_ready)
            self._blocks.append(memoryview(data)[position:])
            self._unwritten += len(data) - position

    def _write_now(self, data: bytes | memoryview) -> int:
        """Write what fits without blocking, and return its size."""
        position = 0
        try:
            while position < len(data) and (self._poll is None or self._poll(0)):
                position += os.write(self._descriptor, data[position : position + self._piece])
        except BlockingIOError:  # it is our own, or the host made the pipe non-blocking
            pass
        except OSError as error:
            self._after_write(0, error)
        return position

    def _write_when_ready(self) -> None:
        written = 0
        while self._blocks:
            block = self._blocks[0]
            position = self._write_now(block)
            written += position
            if position < len(block):
                if self._blocks:  # not after an error
                    self._blocks[0] = block[position:]
                break
            self._blocks.popleft()
        if not self._blocks:
            self._loop.remove_writer(self._descriptor)
        self._after_write(written)

    def _write_in_thread(self, queue: SimpleQueue[bytes | None]) -> None:
        while (data := queue.get()) is not None:
            error: OSError | None = None
            size, block = len(data), memoryview(data)
            try:
                while block and not self.is_broken:
                    block = block[os.write(self._descriptor, block) :]
            except OSError as problem:
                error = problem.with_traceback(None)  # which would refer to what could not be written
            del data, block  # they must not live until there are others
            call_in_loop(self._loop, self._after_write, size, error)
        if self._thread_closes_descriptor:
            os.close(self._descriptor)

    def _after_write(self, size: int, error: OSError | None = None) -> None:
        self._unwritten -= size
        self._has_written.set()
        if error is not None and not self.is_broken:
            logger.info("the client closed standard output, so no more messages are sent: %s", error)
            self._stop()
            self._on_broken()
        elif self.is_full and self._unwritten + self._gathered_size <= _ROOM:
            self.is_full = False
            self._has_room.set()
            self._on_room()


def _start_thread(name: str, target: Callable[..., None], argument: object) -> None:
    threading.Thread(target=target, args=(argument,), name=name, daemon=True).start()


def _enlarge(descriptor: int) -> None:
    """Let a pipe hold `_PIPE_SIZE`, which only Linux can change, so that a long message goes through in few pieces."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # it is no pipe, or the pipes of this user already hold too much
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
