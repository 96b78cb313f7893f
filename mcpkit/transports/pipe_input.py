"""Reads a descriptor into an event loop, and stops reading while asked to.

The descriptor is never made non-blocking: that would change the open file itself, which the host, a terminal
or a sibling process may share.
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
        descriptor: What to read; nobody else may read it meanwhile.
        take: Called in the loop with each chunk as it comes, and once with `b""` at the end of input. A chunk
            that was on its way when the input was paused still comes.
    """
    try:
        return _PolledInput(descriptor, take)
    except (PermissionError, NotImplementedError):  # a regular file on Linux; any pipe on Windows
        return _ThreadedInput(descriptor, take)


class PipeInput(ABC):
    """A descriptor that is being read, and more at once of what is long; made by `read_pipe`.

    Attributes:
        descriptor: What is read.
        chunks: How many reads have been made: what tells a busy loop from one that is stuck.
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
        """Read on after `pause`."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading for good."""

    def expect_more(self) -> None:
        """Read more at once the next time: what has come is a part of something long."""
        if not self._is_enlarged:
            self._is_enlarged = True
            enlarge(self.descriptor)
        self._size = _LONG_CHUNK

    def read(self) -> bytes:
        """Read once; nothing at the end."""
        size, self._size = self._size, CHUNK
        try:
            return os.read(self.descriptor, size)
        except BlockingIOError:
            raise
        except OSError as error:  # a terminal that was closed (EIO), a socket whose host died (ECONNRESET)
            logger.info("reading standard input failed, so it is treated as closed: %s", error)
            return b""


class _PolledInput(PipeInput):
    """The loop says that there is something to read, so the read does not block."""

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
    """A thread waits for the descriptor, and hands over one chunk at a time."""

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
