"""Passes on the standard error of a child process line by line, and keeps the last lines."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
from collections.abc import Callable
from subprocess import DEVNULL
from typing import Final, Protocol

from ...transports.pipes import PipeInput, PipeOutput

_LAST_LINES: Final = 20
_LAST_BYTES: Final = 4096
_LONGEST_LINE: Final = 64 * 1024
"""Bytes after which what has come is passed on as a line of its own."""

_FLUSH_TIME: Final = 0.5
"""Seconds at the end to read the remaining output."""

logger = logging.getLogger(__name__)


class TextSink(Protocol):
    """A target of text, such as an open file."""

    def write(self, text: str, /) -> object:
        """Write a text."""


Stderr = TextSink | Callable[[str], object] | int | None
"""The target of each line: None for the standard error of this process, `subprocess.DEVNULL`, a function or a file."""


def check_stderr(target: object) -> None:
    """Check what `stderr` may be.

    Raises:
        TypeError: It is of another type.
        ValueError: It is a number other than `subprocess.DEVNULL`.
    """
    if isinstance(target, int):
        if target != DEVNULL:
            raise ValueError(
                "stderr must be a function that takes a line, an open file, subprocess.DEVNULL or None, got "
                f"{target!r}"
            )
    elif target is not None and not callable(target) and not hasattr(target, "write"):
        raise TypeError(
            f"stderr must be a function that takes a line, an open file, subprocess.DEVNULL or None, got {target!r}"
        )


class StandardError:
    """Reads the standard error of a child process to its end.

    Args:
        descriptor: What to read.
        target: Where each line goes.

    Attributes:
        at_end: Done when there is nothing more to come.
    """

    def __init__(self, descriptor: int, target: Stderr) -> None:
        self.at_end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last = b""
        self._partial = b""
        self._copy: _Copy | None = None
        self._write = self._writer(target)
        self._input = PipeInput(descriptor, self._take)

    def last_words(self) -> str:
        """Return the last lines; empty if there are none."""
        lines = self._last.decode(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:]).strip()

    async def aclose(self) -> None:
        """Stop reading, and pass on what has been read."""
        self._input.close()
        if self._partial:
            self._pass_on(self._partial)
            self._partial = b""
        if self._copy is not None:
            copy, self._copy = self._copy, None
            await copy.aclose()

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            if not self.at_end.done():
                self.at_end.set_result(None)
            return
        self._last = (self._last + chunk)[-_LAST_BYTES:]
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._pass_on(line)
        if len(self._partial) > _LONGEST_LINE:
            self._pass_on(self._partial)
            self._partial = b""
        if self._copy is not None and self._copy.output.is_full:
            self._input.pause()

    def _read_on(self) -> None:
        self._input.resume()

    def _pass_on(self, line: bytes) -> None:
        try:
            self._write(line.removesuffix(b"\r"))
        except Exception:
            logger.exception(
                "the function or file given as stderr= failed; a line of the server's standard error is lost"
            )

    def _writer(self, target: Stderr) -> Callable[[bytes], object]:
        target = sys.stderr if target is None else target
        if target is None or isinstance(target, int):  # a program without a console has no standard error
            return _drop
        if callable(target):
            return lambda line: target(line.decode(errors="replace"))
        descriptor = _descriptor_of(target)
        if descriptor is None:
            return lambda line: target.write(line.decode(errors="replace") + "\n")
        self._copy = _Copy(descriptor, on_room=self._read_on)
        return self._copy.output.send


class _Copy:
    """Writes to the descriptor of an open file without blocking the event loop, however slow its reader is."""

    def __init__(self, descriptor: int, on_room: Callable[[], None]) -> None:
        own = os.dup(descriptor)  # whoever opened the file may close it meanwhile
        self.output = PipeOutput(own, on_room=on_room, on_broken=on_room)

    async def aclose(self) -> None:
        """Write the remaining text, within a time limit."""
        try:
            await asyncio.wait_for(self.output.flush(), _FLUSH_TIME)
        except asyncio.TimeoutError:
            logger.debug("the rest of the server's standard error was not read in time and is lost")
        finally:
            self.output.close(with_descriptor=True)


def _descriptor_of(target: TextSink) -> int | None:
    """Return the descriptor of an open file; None for what is none, such as `io.StringIO` or a notebook's output."""
    fileno, flush = getattr(target, "fileno", None), getattr(target, "flush", None)
    if fileno is None or (isinstance(target, io.TextIOBase) and not isinstance(target, io.TextIOWrapper)):
        return None
    try:
        descriptor: int = fileno()
    except (io.UnsupportedOperation, ValueError):
        return None
    if flush is not None:
        flush()  # what has been written to it before comes first
    return descriptor


def _drop(line: bytes) -> None:
    """Discard a line."""
