"""Reading of a descriptor in an event loop, with pause and resume.

The descriptor is never made non-blocking: that would change the open file itself, which the host, a terminal or a
sibling process may share.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from .pipe_size import enlarge

CHUNK = 64 * 1024
"""What a pipe holds by default on Linux; a longer read would not be filled."""

_LONG_CHUNK = 128 * 1024
"""What is read at once of a long message: more would save few turns of the loop, and take memory twice."""

logger = logging.getLogger(__name__)


def read_pipe(descriptor: int, take: Callable[[bytes], None]) -> PipeInput:
    """Read a descriptor until it ends, in the running event loop.

    Args:
        descriptor: The descriptor. No other code may read it meanwhile.
        take: Called in the loop with each chunk, and once with `b""` at the end of input. A chunk in transit at a pause
            is still delivered.
    """
    try:
        return _PolledInput(descriptor, take)
    except (PermissionError, NotImplementedError):  # a regular file on Linux; any pipe on Windows
        return _ThreadedInput(descriptor, take)


class PipeInput(ABC):
    """Reader of a descriptor, with larger reads for long messages; created by `read_pipe`.

    Attributes:
        descriptor: The descriptor.
        chunks: Number of reads, which distinguishes a busy loop from a blocked one.
    """

    def __init__(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        self.descriptor = descriptor
        self.chunks = 0
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._size = CHUNK
        self._is_enlarged = False

    @abstractmethod
    def pause(self) -> None:
        """Stop reading."""

    @abstractmethod
    def resume(self) -> None:
        """Continue reading after `pause`."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading permanently."""

    def expect_more(self) -> None:
        """Make the next read larger, because the last chunk is part of a long message."""
        if not self._is_enlarged:
            self._is_enlarged = True
            enlarge(self.descriptor)
        self._size = _LONG_CHUNK

    def read(self) -> bytes:
        """Read once; returns empty bytes at the end."""
        size, self._size = self._size, CHUNK
        try:
            return os.read(self.descriptor, size)
        except BlockingIOError:
            raise
        except OSError as error:  # a terminal that was closed (EIO), a socket whose host died (ECONNRESET)
            logger.info("reading standard input failed, so it is treated as closed: %s", error)
            return b""


class _PolledInput(PipeInput):
    """Reader that waits for the event loop to report input, so that reads do not block."""

    def __init__(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        super().__init__(descriptor, take)
        self.resume()

    def pause(self) -> None:
        self._loop.remove_reader(self.descriptor)

    def resume(self) -> None:
        self._loop.add_reader(self.descriptor, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self.descriptor)

    def _read(self) -> None:
        try:
            chunk = self.read()
        except BlockingIOError:  # the host made the pipe non-blocking, and somebody else read from it
            return
        if not chunk:
            self.close()
        self.chunks += 1
        self._take(chunk)


class _ThreadedInput(PipeInput):
    """Reader with a thread that blocks on the descriptor, and delivers one chunk at a time."""

    def __init__(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        super().__init__(descriptor, take)
        self._is_paused = False
        self._is_closed = False
        self._wanted = threading.Event()
        self._wanted.set()
        threading.Thread(target=self._run, name="mcpkit-stdin", daemon=True).start()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._wanted.set()

    def close(self) -> None:
        self._is_closed = True
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._is_closed:
                return
            chunk = self.read()
            try:
                self._loop.call_soon_threadsafe(self._hand_over, chunk)
            except RuntimeError:  # the loop was closed meanwhile
                return
            del chunk  # it must not live until there is another

    def _hand_over(self, chunk: bytes) -> None:
        if self._is_closed:
            return
        if not chunk:
            self.close()
        self.chunks += 1
        self._take(chunk)
        if not self._is_paused:
            self._wanted.set()
