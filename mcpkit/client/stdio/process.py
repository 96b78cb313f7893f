"""A child process at the head of its own group: how it starts, and how it ends with all that it has started."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from .orphans import Guard, forget, remember
from .starting import start

if sys.platform == "win32":
    from .windows import Job

    _KILL: Final = signal.SIGTERM
else:
    _KILL: Final = signal.SIGKILL

_POLL: Final = 0.01
"""Seconds between two checks for child processes that remain. There is no notification of their exit."""

_KILLED: Final = 1.0
"""Seconds for the system to end a process that has been killed."""

logger = logging.getLogger(__name__)


class Process:
    """A child process with pipes for its standard streams.

    On POSIX it has a session of its own: a Ctrl+C in the terminal goes to this process alone, which then ends the child
    in order, and signals reach all that the child has started, such as the server behind `npx`. On Windows a job object
    does the same.

    Args:
        command: The program and its arguments.
        environment: All of its environment.
        cwd: Where it runs; None for the folder of this process.
        grace: Seconds that it has to end by itself when its input has ended, and once more after SIGTERM.

    Attributes:
        stdin: The descriptor to write to.
        stdout: The descriptor to read from.
        stderr: The same of its standard error.
        exited: Done when it has ended.

    Raises:
        TransportError: It cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: str | os.PathLike[str] | None,
        grace: float,
    ) -> None:
        self.grace = grace
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._is_ours = True
        self._haste: asyncio.Future[None] = self._loop.create_future()
        self._popen, (self.stdin, self.stdout, self.stderr) = start(command, environment, cwd)
        self._open = {self.stdin, self.stdout, self.stderr}
        remember(self)
        if sys.platform == "win32":
            self._job = Job(self._popen)
        self._guard: Guard | None = None
        self._life = self._watch()

    @property
    def pid(self) -> int:
        """The id of the process, and on POSIX of its group."""
        return self._popen.pid

    @property
    def status(self) -> int | None:
        """The exit status, or minus the number of the signal that has ended it; None while it lives."""
        return self._popen.returncode

    def guard(self) -> None:
        """See to its end should this process be killed; this takes as long as to start another process."""
        self._guard = Guard(self.pid, self.grace)

    def close_input(self) -> None:
        """Let it find the end of its standard input."""
        self._close(self.stdin)

    if sys.platform == "win32":

        def signal(self, number: int) -> bool:
            """End the whole job, as there are no signals."""
            self._job.terminate()
            return False

    else:

        def signal(self, number: int) -> bool:
            """Send a signal to the whole group, and say whether there was anybody."""
            if not self._is_ours:
                return False
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):  # nobody, or another user's
                return False
            return True

    def wait(self, seconds: float) -> bool:
        """Block until its exit, and return whether it has exited."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self._popen.returncode is not None

    def hurry(self) -> None:
        """Let `stop` not wait for an end by itself."""
        if not self._haste.done():
            self._haste.set_result(None)

    async def stop(self) -> None:
        """End it and all that it has started: by the end of its input, then SIGTERM, then SIGKILL.

        Each step has its grace. When this is cancelled, the next step is taken at once.
        """
        if not self._is_ours:
            return
        self.close_input()
        await self._exit_within(self.grace, self._haste)
        for number, seconds in ((signal.SIGTERM, self.grace), (_KILL, max(self.grace, _KILLED))):
            if not self.exited.done():
                self.signal(number)
                await self._exit_within(seconds)
        if not self.exited.done() and not self.wait(_KILLED):
            logger.warning("the server process %d could not be killed. End it by hand", self.pid)
        await self._stop_others()

    def kill(self) -> None:
        """End it at once, and give everything back."""
        self.signal(_KILL)
        self.wait(_KILLED)
        self.close()

    def close(self) -> None:
        """Give everything back; the descriptors must not be in use any more."""
        if self._life is not None:
            self._loop.remove_reader(self._life)
        self.release()
        forget(self)

    def release(self) -> None:
        """Give everything back when the interpreter ends, and no loop runs any more."""
        if self._guard is not None:
            self._guard.close()
        if sys.platform == "win32":
            self._job.close()
        self._close_all()

    def forget(self) -> None:
        """Release it in a forked child of this process, which is not its parent."""
        self._is_ours = False
        if self._guard is not None:
            self._guard.forget()
        self._close_all()

    async def _exit_within(self, seconds: float, *others: asyncio.Future[None]) -> None:
        """Wait for the exit, or for one of the others."""
        with suppress(asyncio.CancelledError):  # the next step is taken at once
            await asyncio.wait((self.exited, *others), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def _stop_others(self) -> None:
        """End the processes that it has left behind."""
        deadline = self._loop.time() + self.grace
        number: int = signal.SIGTERM
        while self.signal(number):
            number = 0
            _reap(self.pid)
            try:
                await asyncio.sleep(_POLL)
            except asyncio.CancelledError:
                deadline = 0
            if self._loop.time() > deadline:
                self.signal(_KILL)
                _reap(self.pid)
                return

    def _watch(self) -> int | None:
        """Watch for the exit, and return the descriptor that signals it; None if a thread waits for it."""
        if sys.platform == "linux":
            with suppress(OSError, AttributeError):  # an old kernel, or one that does not let us
                life = os.pidfd_open(self.pid)
                self._open.add(life)
                self._loop.add_reader(life, self._note_exit, life)
                return life
        threading.Thread(target=self._wait_in_thread, name="mcpkit-child", daemon=True).start()
        return None

    def _wait_in_thread(self) -> None:
        self._popen.wait()
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._note_exit)

    def _note_exit(self, life: int | None = None) -> None:
        if life is not None:
            self._loop.remove_reader(life)
            self._popen.wait()
        if not self.exited.done():
            self.exited.set_result(None)

    def _close(self, descriptor: int) -> None:
        with suppress(KeyError):  # it is closed
            self._open.remove(descriptor)
            os.close(descriptor)

    def _close_all(self) -> None:
        with suppress(KeyError):  # that was all
            while True:
                os.close(self._open.pop())


def _reap(group: int) -> None:
    """Bury members of a group that have ended, where they are this process's: it is the first of a container."""
    if sys.platform != "win32":
        with suppress(ChildProcessError):
            os.waitpid(-group, os.WNOHANG)
