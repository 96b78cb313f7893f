"""Keeps the standard streams of the process for the protocol alone.

The specification forbids anything but messages on standard output (revision 2026-07-28, "stdio"). Tools,
libraries and child processes print there all the same, some of them below Python, so it is the descriptors
that change hands: the protocol moves to private copies, 1 becomes standard error and 0 becomes empty.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_private: set[int] = set()
"""The copies now open. A forked child closes them, or the host would not see the end of our output."""

_lock = threading.Lock()
"""Held while 1 and 2 change hands."""


class StandardStreams:
    """The private descriptors of the protocol: `input` to read from, `output` to write to."""

    __slots__ = ("input", "output")

    def __init__(self, reads: int, writes: int) -> None:
        self.input = reads
        self.output = writes


@contextmanager
def hold_standard_descriptors() -> Generator[None]:
    """See to it that 0, 1 and 2 are open, so that no file opened in this block gets one of these numbers.

    Where standard error is closed, the empty device stands in for it.

    Raises:
        RuntimeError: Standard input or output is closed.
    """
    for descriptor, name in enumerate(("input", "output")):
        if not _is_open(descriptor):
            raise RuntimeError(f"standard {name} is closed: give the server a pipe, a socket or a file there")
    if _is_open(2):
        yield
        return
    os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is 2
    os.set_inheritable(2, True)
    try:
        yield
    finally:
        os.close(2)


@contextmanager
def take_over_standard_streams() -> Generator[StandardStreams]:
    """Take standard input and output over, for as long as the block lasts.

    Inside it, whatever is written to descriptor 1 comes out of standard error, and descriptor 0 is empty, in
    this process and in its children. What Python printed before, and has not written yet, goes the same way.
    """
    streams = StandardStreams(os.dup(0), os.dup(1))
    empty = os.open(os.devnull, os.O_RDWR)
    private = {streams.input, streams.output}
    _private.update(private)
    os.dup2(empty, 0)
    # Where Python found 2 closed at its start, it may by now be any file of the author's.
    os.dup2(2 if sys.__stderr__ is not None else empty, 1)
    replace_lost_stderr()
    buffered = [stream for stream in _stdout_objects() if not stream.line_buffering]
    try:
        _flush(empty)
        for stream in buffered:
            stream.reconfigure(line_buffering=True)  # what a tool prints is worth reading while it runs
        yield streams
    finally:
        _flush(empty)
        _flush_c()
        for stream in buffered:
            if not stream.closed:
                stream.reconfigure(line_buffering=False)
        with _lock:
            _private.difference_update(private)
            os.dup2(streams.input, 0)
            os.dup2(streams.output, 1)
        for descriptor in (*private, empty):
            os.close(descriptor)


def replace_lost_stderr() -> None:
    """Put the empty device in the place of a standard error that nobody reads any more.

    Otherwise `print` would raise in a tool, and a child process that prints would die of it.
    """
    if sys.platform != "win32":
        poll = select.poll()
        poll.register(2, 0)
        with _lock:
            if _private and poll.poll(0):
                empty = os.open(os.devnull, os.O_RDWR)
                os.dup2(empty, 1)
                os.dup2(empty, 2)
                os.close(empty)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _stdout_objects() -> list[io.TextIOWrapper]:
    candidates = {id(stream): stream for stream in (sys.stdout, sys.__stdout__)}.values()
    return [stream for stream in candidates if isinstance(stream, io.TextIOWrapper) and not stream.closed]


def _flush(empty: int) -> None:
    try:
        for stream in _stdout_objects():
            stream.flush()
    except OSError:  # standard error was lost only now; what is left must not come out when 1 is restored
        os.dup2(empty, 1)
        for stream in _stdout_objects():
            stream.flush()


def _flush_c() -> None:
    """Write out what C code printed, which otherwise leaves with the process, after 1 has been restored."""
    try:
        import ctypes
    except ImportError:  # a Python without libffi has no way to reach these buffers
        return
    ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None).fflush(None)


def _close_private_copies() -> None:
    while _private:
        os.close(_private.pop())


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_private_copies)
