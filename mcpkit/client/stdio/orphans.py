"""Ends child processes when this process ends without closing them, in any way."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final, Protocol

_SCRIPT: Final = 'read -r _; sleep "$2"; kill -s TERM -- "-$1" || exit; sleep "$2"; kill -s KILL -- "-$1"'
"""Waits for the end of input, which comes when all writers have exited; then ends the process group."""

_SHELL: Final = "/bin/sh"

_KILLED: Final = 1.0
"""Seconds for the system to end processes that have been killed."""


class Child(Protocol):
    """A child process that this one has to end."""

    @property
    def grace(self) -> float:
        """Seconds for each step of its end."""
        ...

    def close_input(self) -> None:
        """Let it find the end of its standard input."""

    def signal(self, number: int) -> bool:
        """Send a signal to the process group, and return whether the group exists."""
        ...

    def wait(self, seconds: float) -> bool:
        """Block until its exit, and return whether it has exited."""
        ...

    def release(self) -> None:
        """Give everything back, as it has ended."""

    def forget(self) -> None:
        """Release it in a forked child of this process, which is not its parent."""


_living: set[Child] = set()


def remember(child: Child) -> None:
    """End a child process when the interpreter ends, unless it is forgotten before."""
    if not _living:
        atexit.register(_end_all)
    _living.add(child)


def forget(child: Child) -> None:
    """Leave a child process alone: it has ended."""
    _living.discard(child)
    if not _living:
        atexit.unregister(_end_all)


def _end_all() -> None:
    """End all children together, as `Process.stop` does for each. An interrupt skips the waiting."""
    try:
        for child in list(_living):  # a loop in another thread may still run
            child.close_input()
        _release(max((child.grace for child in list(_living)), default=0))
        for child in list(_living):
            child.signal(signal.SIGTERM)
        _release(max((child.grace for child in list(_living)), default=0))
    finally:
        for child in list(_living):
            child.signal(_KILL)
        _release(_KILLED)


def _release(seconds: float) -> None:
    """Give those back that exit in time."""
    deadline = time.monotonic() + seconds
    for child in list(_living):
        if child.wait(max(0, deadline - time.monotonic())):
            child.signal(_KILL)  # whom it has left behind
            child.release()
            _living.discard(child)


if sys.platform == "win32":  # there, a job object ends with the last process that knows it
    _KILL = signal.SIGTERM
else:
    _KILL = signal.SIGKILL

    def _forget_all() -> None:
        while _living:
            _living.pop().forget()

    os.register_at_fork(after_in_child=_forget_all)


class Guard:
    """A shell that ends a group of processes when this process has ended, even by SIGKILL.

    Without a shell, and on Windows, there is none.

    Args:
        group: The id of the group.
        grace: Seconds that it has to end by itself, and once more after SIGTERM.
    """

    def __init__(self, group: int, grace: float) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        self._descriptor: int | None = None
        if sys.platform != "win32":
            self._start(group, grace)

    def _start(self, group: int, grace: float) -> None:
        with suppress(OSError):
            input_, self._descriptor = os.pipe()
            try:
                self._shell = subprocess.Popen(
                    [_SHELL, "-c", _SCRIPT, "mcpkit-guard", str(group), f"{grace:g}"],
                    stdin=input_,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                    cwd="/",
                    start_new_session=True,
                )
            finally:
                os.close(input_)

    def close(self) -> None:
        """End it: there is nothing to guard any more."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
        self.forget()

    def forget(self) -> None:
        """Close its input in a forked child of this process."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
