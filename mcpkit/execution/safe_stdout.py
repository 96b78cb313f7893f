"""Safe versions of Python's output streams: a `print` in a function must not fail its call."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Final, cast

from typing_extensions import Self

# The error handler that Python has for standard error: it never fails.
_ESCAPE: Final = "backslashreplace"

_NEVER_FAIL: Final = frozenset({_ESCAPE, "ignore", "namereplace", "replace", "xmlcharrefreplace"})

_UNSAFE: Final = object()

_DESCRIPTORS: Final = {"stdout": 1, "__stdout__": 1, "stderr": 2, "__stderr__": 2}


class SafeOutput:
    """Context in which printing does not fail for reasons outside of the function that prints.

    In it, `sys.stdout` and `sys.stderr` write unencodable characters as escapes, drop output that the system rejects,
    and stay open when they are closed or detached. Streams of other classes than Python's stay in place, and subclasses
    of Python's get the same error handler. The end of the context restores the streams.

    Attributes:
        stdout: `sys.stdout` as found by `refresh`, if it stays safe because it cannot be closed.
        stderr: The same for `sys.stderr`.
    """

    def __init__(self) -> None:
        self._undo = ExitStack()
        self._checked: list[object] = [None, None]
        self.stdout: object = _UNSAFE
        self.stderr: object = _UNSAFE

    def __enter__(self) -> Self:
        replaced: dict[int, SafeStream | None] = {}
        for name, descriptor in _DESCRIPTORS.items():
            stream: object = getattr(sys, name)
            if id(stream) not in replaced:
                replaced[id(stream)] = _safe_version(stream, descriptor)
                undo = _escape(stream)
                if undo is not None:
                    self._undo.callback(undo)
            if (safe := replaced[id(stream)]) is not None:
                setattr(sys, name, safe)
                self._undo.callback(_restore, name, safe, stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a stream of the author's
            flush_output()
        self._undo.close()

    def refresh(self) -> None:
        """Make streams safe that were replaced or closed since the last call."""
        self.stdout, self.stderr = self._refreshed(0, "stdout"), self._refreshed(1, "stderr")

    def _refreshed(self, number: int, name: str) -> object:
        """Make one stream safe. Return it if it stays safe, else `_UNSAFE`."""
        stream: object = getattr(sys, name)
        if is_closed(stream):
            stream = SafeStream(_DESCRIPTORS[name], "utf-8")
            setattr(sys, name, stream)
        elif stream is not self._checked[number]:
            self._checked[number] = stream
            _escape(stream)
        return stream if stream is None or isinstance(stream, SafeStream) else _UNSAFE


class SafeStream(io.TextIOWrapper):
    """Text output to a descriptor that cannot be closed. Its writes never raise.

    Args:
        descriptor: The descriptor; it is not closed.
        encoding: The encoding.
    """

    def __init__(self, descriptor: int, encoding: str) -> None:
        raw: Any = _Descriptor(descriptor, "w", closefd=False)
        super().__init__(raw, encoding, _ESCAPE, line_buffering=True)

    def close(self) -> None:
        """Flush the buffer; the stream stays open."""
        self.flush()

    def detach(self) -> Any:
        """Return the byte stream, which stays attached."""
        self.flush()
        return self.buffer

    def reconfigure(self, **options: Any) -> None:
        """Change options as `io.TextIOWrapper` does, but for error handlers that may fail."""
        errors = options.pop("errors", None) or self.errors
        super().reconfigure(**options, errors=errors if errors in _NEVER_FAIL else _ESCAPE)


class _Descriptor(io.FileIO):
    """Byte stream that writes everything to a descriptor, or drops data that the system rejects."""

    def close(self) -> None:
        """Do nothing: the descriptor belongs to the process."""

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        with suppress(OSError):  # the reader has gone, the disk is full, or the descriptor was closed
            while rest:
                written = cast("int | None", super().write(rest))
                if written is None:  # the descriptor is non-blocking, as Node.js makes pipes
                    _wait_for_room(self.fileno())
                else:
                    rest = rest[written:]
        return size


def flush_output() -> None:
    """Flush standard output. It raises only OSError."""
    for stream in (sys.stdout, sys.__stdout__):
        flush: object = getattr(stream, "flush", None)
        if callable(flush):
            with suppress(ValueError):  # it has been closed or detached
                flush()


def descriptor_of(stream: object) -> int | None:
    """Return the descriptor of a Python stream; None if it has none."""
    try:
        descriptor: object = stream.fileno()  # type: ignore[attr-defined]  # whatever an author has put there
    except (AttributeError, OSError, ValueError):
        return None
    return descriptor if isinstance(descriptor, int) else None


def _safe_version(stream: object, descriptor: int) -> SafeStream | None:
    """Return the replacement of a stream; None for a stream that stays, because its class may do more than write."""
    if type(stream) is not io.TextIOWrapper:
        return None
    own: int | None = descriptor
    if not is_closed(stream):
        own = descriptor_of(stream)
        if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):  # a Windows console
            return None
    return None if own is None or not is_open(own) else SafeStream(own, stream.encoding)


def _escape(stream: object) -> Callable[[], None] | None:
    """Make a stream write unencodable characters as escapes. Return a function that undoes it, or None."""
    if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, SafeStream):
        text: io.TextIOWrapper[Any] = stream  # pyright: ignore[reportUnknownVariableType]  # on any buffer
        with suppress(ValueError, OSError):  # it has been closed or detached
            before = text.errors, text.line_buffering
            safe = before[0] if before[0] in _NEVER_FAIL else _ESCAPE
            text.reconfigure(errors=safe, line_buffering=True)  # what is printed is worth reading at once
            return lambda: _reconfigure(text, *before)
    return None


def _reconfigure(stream: io.TextIOWrapper[Any], errors: str | None, line_buffering: bool) -> None:
    with suppress(ValueError, OSError):  # it was closed or detached meanwhile
        stream.reconfigure(errors=errors, line_buffering=line_buffering)


def _restore(name: str, safe: SafeStream, stream: object) -> None:
    if getattr(sys, name) is safe:
        setattr(sys, name, stream)


def is_open(descriptor: int) -> bool:
    """Return whether a descriptor is open."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def is_closed(stream: object) -> bool:
    """Return whether a stream was closed or detached, so that it can be used no more."""
    try:
        return bool(getattr(stream, "closed", False))
    except ValueError:  # detached
        return True


if sys.platform == "win32":

    def _wait_for_room(descriptor: int) -> None:
        """Return at once: a pipe of Windows does not report its free space."""

else:

    def _wait_for_room(descriptor: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        poll.poll()
