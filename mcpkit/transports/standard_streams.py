"""Reservation of the standard streams of the process for the protocol.

The specification allows only messages on standard output (revision 2026-07-28, "stdio"). Tools, libraries and child
processes print there all the same, some of them below Python. So the descriptors are exchanged: the protocol uses
private copies, 1 becomes standard error, and 0 becomes empty.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ..execution.safe_stdout import SafeOutput, descriptor_of, flush_output, is_closed, is_open

# The copies now open. A forked child closes them, or the host would not see the end of our output.
_private: set[int] = set()

_diverted: int | None = None  # the copy of standard output while that is diverted to standard error

_is_forked = False  # whether this process was forked from one that used the standard streams for the protocol

_lock = threading.Lock()  # held while 1 and 2 are exchanged


class StandardStreams(NamedTuple):
    """Private descriptors of the protocol.

    Attributes:
        input: Descriptor for reading.
        output: Descriptor for writing.
        printing: Keeps `sys.stdout` and `sys.stderr` safe to print to.
    """

    input: int
    output: int
    printing: SafeOutput


@contextmanager
def keep_standard_descriptors() -> Generator[None]:
    """Keep 0, 1 and 2 open, so that no file opened in this block gets one of these numbers.

    If standard error is closed, the null device replaces it.

    Raises:
        RuntimeError: Standard input or output is closed, or its number now belongs to another file.
    """
    if _is_forked:
        raise RuntimeError(
            "this process was forked from one that serves over stdio, and has no standard input or output of its own. "
            'Start a new process instead, for example with subprocess.run([sys.executable, "server.py"])'
        )
    for descriptor, name, stream in ((0, "stdin", sys.__stdin__), (1, "stdout", sys.__stdout__)):
        if not is_open(descriptor):
            raise RuntimeError(
                f"standard {name[3:]}put is closed. Start the server with a pipe, a socket or a file "
                f"there, and do not close sys.{name} before run()"
            )
        if is_closed(stream) and not os.get_inheritable(descriptor):
            raise RuntimeError(
                f"sys.{name} was closed before run(), and its descriptor {descriptor} now belongs to "
                f"another file. Do not close sys.{name}"
            )
    with _keep_stderr():
        yield


@contextmanager
def divert_standard_output() -> Generator[None]:
    """Redirect printed output to standard error until the block ends.

    It is for user code that runs before the server, such as its import. A server that runs in the block by
    `take_over_standard_streams` still writes to standard output. Nothing is redirected unless a host may have started
    the process: standard input is a pipe, a socket or a file, not a terminal or the null device.
    """
    global _diverted  # noqa: PLW0603 - of the process
    may_have_host = is_open(0) and is_open(1) and not stat.S_ISCHR(os.fstat(0).st_mode) and not os.isatty(1)
    if not may_have_host or _diverted is not None or _private:
        yield
        return
    _flush_output()
    with _keep_stderr():
        _diverted = os.dup(1)
        _private.add(_diverted)
        os.dup2(2, 1)
        replace_lost_stderr()
        try:
            with SafeOutput():
                yield
        finally:
            _flush_all()
            with _lock:
                output, _diverted = _diverted, None
                if output in _private:  # not in a child that was forked meanwhile
                    _private.discard(output)
                    os.dup2(output, 1)
                    os.close(output)


@contextmanager
def _keep_stderr() -> Generator[None]:
    if is_open(2):
        yield
        return
    os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is 2
    os.set_inheritable(2, True)
    try:
        yield
    finally:
        with suppress(OSError):  # closed by the author's code
            os.close(2)


@contextmanager
def take_over_standard_streams() -> Generator[StandardStreams]:
    """Take over standard input and output until the block ends.

    In the block, data written to descriptor 1 goes to standard error, and descriptor 0 is empty, in this process and
    its children. Output that Python has buffered before goes the same way.
    """
    stdout, empty = 1 if _diverted is None else _diverted, os.open(os.devnull, os.O_RDWR)
    streams = StandardStreams(os.dup(0), os.dup(stdout), SafeOutput())
    private = {streams.input, streams.output}
    restored = {0: streams.input, 1: streams.output if _diverted is None else os.dup(1)}
    # Where Python found 2 closed at its start, it may by now be any file of the author's.
    instead = {0: empty, 1: 2 if sys.__stderr__ is not None else empty}
    for copy in _copies(0, sys.stdin, sys.__stdin__):
        restored[copy], instead[copy] = os.dup(copy), instead[0]
    for copy in _copies(stdout, sys.stdout, sys.__stdout__):
        restored[copy], instead[copy] = os.dup(copy), instead[1]
    private.update(restored.values())
    _private.update(private)
    for descriptor, other in instead.items():
        os.dup2(other, descriptor, descriptor <= 2)
    replace_lost_stderr()
    try:
        _flush_output()
        with streams.printing:
            yield streams
    finally:
        _flush_all()
        with _lock:
            _private.difference_update(private)
            for descriptor, copy in restored.items():
                os.dup2(copy, descriptor, descriptor <= 2)
        for descriptor in (*private, empty):
            os.close(descriptor)


def replace_lost_stderr() -> None:
    """Replace a standard error with a closed reader by the null device.

    Otherwise `print` would raise in a tool, and child processes that print would be killed.
    """
    if sys.platform != "win32":
        poll = select.poll()
        poll.register(2, 0)
        with _lock:
            if _private and poll.poll(0):
                _empty(1, 2)


def _copies(descriptor: int, *streams: object) -> set[int]:
    """Return the descriptors of streams that are copies of another, such as that of `os.fdopen(os.dup(1), "w")`."""
    # Where Python found 2 closed at its start, that is the first number that a copy gets.
    known = (0, 1) if sys.__stderr__ is None else (0, 1, 2)
    found = {number for number in map(descriptor_of, streams) if number is not None and number not in known}
    return {number for number in found if is_open(number) and os.path.sameopenfile(number, descriptor)}


def _flush_output() -> None:
    try:
        flush_output()
    except OSError:
        # Standard error was lost only now. Buffered output must not be written when 1 is restored.
        _empty(1)
        flush_output()


def _empty(*descriptors: int) -> None:
    """Replace descriptors by the null device."""
    empty = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(empty, descriptor)
    os.close(empty)


def _flush_all() -> None:
    """Flush also the buffers of C code, which would otherwise be written at exit, after 1 has been restored."""
    _flush_output()
    with suppress(ImportError):  # a Python without libffi has no way to reach these buffers
        import ctypes

        ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None).fflush(None)


def _close_private_copies() -> None:
    global _is_forked  # noqa: PLW0603 - of the process
    _is_forked = _is_forked or bool(_private)
    while _private:
        os.close(_private.pop())


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_private_copies)
