"""Child processes with pipes: starting them, and ending them with their descendants, also when this process is killed.

They are started by `subprocess`, not by asyncio or anyio: a process must also be ended when its event loop no longer
runs, and in a fork of this process it must be left alone.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from ..._utils.concurrency import call_in_loop
from ..._utils.exceptions import TransportError

if sys.platform == "win32":
    _KILL: Final = signal.SIGTERM
else:
    _KILL: Final = signal.SIGKILL

_POLL: Final = 0.01
"""Seconds between two checks for descendants that still run. The system does not notify of their exit."""

_KILL_TIME: Final = 1.0
"""Seconds for the system to end a process that was killed."""

_TEMPORARY: Final = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETXTBSY})
"""Errors of a system that lacks resources at the moment, or of a program file that is still being written."""

_GUARD: Final = 'read -r _; sleep "$2"; kill -s TERM -- "-$1" || exit; sleep "$2"; kill -s KILL -- "-$1"'
"""Shell script that waits for the end of its input, when all writers have exited; then it ends the process group."""

INHERITED: Final = tuple(
    (
        "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE SYSTEMDRIVE SYSTEMROOT TEMP"
        " USERNAME USERPROFILE"
        if sys.platform == "win32"
        else "HOME LOGNAME PATH SHELL TERM USER"
    ).split()
)
"""Environment variables that a child process inherits, as in the official SDKs. Other variables may be secret."""

logger = logging.getLogger(__name__)


def child_environment(own: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment of a child process.

    Shell functions, with values that begin with `()`, are left out.

    Args:
        own: Variables to add or replace.
    """
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    variables = {name: value for name, value in inherited.items() if not value.startswith("()")}
    for name, value in (own or {}).items():
        # Names of variables are case-insensitive on Windows.
        variables[name.upper() if sys.platform == "win32" else name] = value
    return variables


class ChildProcess:
    """A child process with pipes for its standard streams.

    On POSIX it has a session of its own: a Ctrl+C in the terminal only goes to this process, which then ends the child
    in order, and signals reach all descendants, such as the server behind `npx`. On Windows a job object does the same.

    Args:
        command: The program and its arguments.
        environment: All environment variables.
        cwd: The working directory; None for that of this process.
        grace: Seconds to exit by itself after the end of its input, and again after SIGTERM.

    Attributes:
        stdin: The descriptor to write to.
        stdout: The descriptor to read standard output from.
        stderr: The descriptor to read standard error from.
        exited: Done when the process has exited.

    Raises:
        TransportError: The process cannot be started.
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
        self._hurry: asyncio.Future[None] = self._loop.create_future()
        self._is_own = True  # False in a fork of this process
        self._popen, (self.stdin, self.stdout, self.stderr) = _start(command, environment, cwd)
        self._descriptors = {self.stdin, self.stdout, self.stderr}
        self._guard: subprocess.Popen[bytes] | None = None
        if not _running:
            atexit.register(_end_all)
        _running.add(self)
        if sys.platform == "win32":
            self._job = Job(self._popen)
        self._pidfd = self._watch_exit()

    @property
    def pid(self) -> int:
        """The id of the process, and on POSIX of its group."""
        return self._popen.pid

    @property
    def status(self) -> int | None:
        """The exit status, or minus the number of the signal that ended it; None while it runs."""
        return self._popen.returncode

    # Ending it

    async def stop(self) -> None:
        """End the process and its descendants: close its input, then send SIGTERM, then SIGKILL.

        Each step has its grace. Cancellation makes the next step follow at once.
        """
        if not self._is_own:
            return
        self.close_input()
        await self._exit_within(self.grace, self._hurry)
        for number, seconds in ((signal.SIGTERM, self.grace), (_KILL, max(self.grace, _KILL_TIME))):
            if not self.exited.done():
                self.signal(number)
                await self._exit_within(seconds)
        if not self.exited.done() and not self.wait(_KILL_TIME):
            logger.warning("the server process %d could not be killed. End it by hand", self.pid)
        await self._stop_descendants()

    def hurry(self) -> None:
        """End the grace of `stop` for an exit by itself."""
        if not self._hurry.done():
            self._hurry.set_result(None)

    def kill(self) -> None:
        """End the process at once, and release its resources."""
        self.signal(_KILL)
        self.wait(_KILL_TIME)
        self.close()

    def close_input(self) -> None:
        """Close the standard input of the process."""
        if self.stdin in self._descriptors:
            self._descriptors.remove(self.stdin)
            os.close(self.stdin)

    if sys.platform == "win32":

        def signal(self, number: int) -> bool:
            """End the whole job, as there are no signals."""
            self._job.terminate()
            return False

    else:

        def signal(self, number: int) -> bool:
            """Send a signal to the process group, and return whether the group exists."""
            if not self._is_own:
                return False
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):  # the latter for a group of another user
                return False
            return True

    def wait(self, seconds: float) -> bool:
        """Block until the exit of the process, and return whether it has exited."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self._popen.returncode is not None

    async def _exit_within(self, seconds: float, *others: asyncio.Future[None]) -> None:
        """Wait for the exit, or for one of the others."""
        with suppress(asyncio.CancelledError):  # the next step follows at once
            await asyncio.wait((self.exited, *others), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def _stop_descendants(self) -> None:
        """End the processes that still run in its group."""
        deadline = self._loop.time() + self.grace
        number: int = signal.SIGTERM
        while self.signal(number):
            number = 0  # from now on only checks whether the group exists
            _reap(self.pid)
            try:
                await asyncio.sleep(_POLL)
            except asyncio.CancelledError:
                deadline = 0
            if self._loop.time() > deadline:
                self.signal(_KILL)
                _reap(self.pid)
                return

    # Its exit, and the end of this process

    def _watch_exit(self) -> int | None:
        """Watch for the exit, and return the descriptor that signals it; None if a thread waits for it."""
        if sys.platform == "linux":
            with suppress(OSError, AttributeError):  # an old kernel, or one that forbids it
                pidfd = os.pidfd_open(self.pid)
                self._descriptors.add(pidfd)
                self._loop.add_reader(pidfd, self._set_exited, pidfd)
                return pidfd
        threading.Thread(target=self._wait_in_thread, name="mcpkit-child", daemon=True).start()
        return None

    def _wait_in_thread(self) -> None:
        self._popen.wait()
        call_in_loop(self._loop, self._set_exited)

    def _set_exited(self, pidfd: int | None = None) -> None:
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            self._popen.wait()
        if not self.exited.done():
            self.exited.set_result(None)

    def guard(self) -> None:
        """Start a shell that ends the process group when this process has ended, even by SIGKILL.

        This takes as long as starting any process. On Windows the job object does it.
        """
        if sys.platform != "win32":
            with suppress(OSError):  # there is no shell
                shell_input, own_end = os.pipe()
                self._descriptors.add(own_end)
                try:
                    self._guard = subprocess.Popen(
                        ["/bin/sh", "-c", _GUARD, "mcpkit-guard", str(self.pid), f"{self.grace:g}"],
                        stdin=shell_input,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env={"PATH": os.environ.get("PATH", os.defpath)},
                        cwd="/",
                        start_new_session=True,
                    )
                finally:
                    os.close(shell_input)

    def close(self) -> None:
        """Release all resources. The descriptors must not be in use any more."""
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        self.release()
        _running.discard(self)
        if not _running:
            atexit.unregister(_end_all)

    def release(self) -> None:
        """Release all resources without the event loop."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None
        if sys.platform == "win32":
            self._job.close()
        self._close_descriptors()

    def abandon(self) -> None:
        """Close the descriptors in a fork of this process, which is not the parent of the child."""
        self._is_own = False
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def _reap(group: int) -> None:
    """Reap descendants that have exited, if they are children of this process: the first process of a container."""
    if sys.platform != "win32":
        with suppress(ChildProcessError):
            os.waitpid(-group, os.WNOHANG)


# The end of this process

_running: set[ChildProcess] = set()


def _end_all() -> None:
    """End all children together, as `ChildProcess.stop` does for each. An interrupt skips the waiting."""
    grace = max((child.grace for child in list(_running)), default=0)
    try:
        for child in list(_running):  # a loop in another thread may still change it
            child.close_input()
        _release_exited(grace)
        for child in list(_running):
            child.signal(signal.SIGTERM)
        _release_exited(grace)
    finally:
        for child in list(_running):
            child.signal(_KILL)
        _release_exited(_KILL_TIME)


def _release_exited(seconds: float) -> None:
    """Release the children that exit within a time."""
    deadline = time.monotonic() + seconds
    for child in list(_running):
        if child.wait(max(0, deadline - time.monotonic())):
            child.signal(_KILL)  # its remaining descendants
            child.release()
            _running.discard(child)


if sys.platform != "win32":

    def _abandon_all() -> None:
        while _running:
            _running.pop().abandon()

    os.register_at_fork(after_in_child=_abandon_all)


# Starting it


def _start(
    command: Sequence[str], environment: Mapping[str, str], cwd: str | os.PathLike[str] | None
) -> tuple[subprocess.Popen[bytes], tuple[int, int, int]]:
    """Start a process at the head of its own group.

    Returns:
        The process, and the descriptors of its standard input, output and error. They are non-blocking on POSIX.

    Raises:
        TransportError: The process cannot be started.
    """
    if sys.platform == "win32":
        arguments = find_command(command, environment)
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
    else:
        arguments, flags = command, 0
    try:
        process = subprocess.Popen(
            arguments,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=cwd,
            creationflags=flags,
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        raise TransportError(
            _explain(error, command[0], environment, cwd),
            may_have_begun=False,
            may_pass=error.errno in _TEMPORARY,
        ) from error
    files = (process.stdin, process.stdout, process.stderr)
    with ExitStack() as stack:  # closes them, as only the descriptors are used from now on
        stdin, stdout, stderr = (
            os.dup(stack.enter_context(each).fileno()) for each in files if each is not None
        )
    if sys.platform != "win32":
        for descriptor in (stdin, stdout, stderr):
            os.set_blocking(descriptor, False)
    return process, (stdin, stdout, stderr)


def _explain(
    error: OSError, program: str, environment: Mapping[str, str], cwd: str | os.PathLike[str] | None
) -> str:
    """Explain why a process could not be started, and what to change."""
    if cwd is not None and error.filename == cwd:
        return f"The server cannot be started in cwd={os.fspath(cwd)!r}: {error.strerror}"
    reason = f"{error.strerror}"
    if isinstance(error, FileNotFoundError):
        if Path(program).name == program:
            path = environment.get("PATH") or "which is empty"
            reason = f"it is not on PATH ({path}). Install it, give its full path, or set PATH in env"
        elif Path(cwd or ".", program).exists():
            reason = "its first line names an interpreter that does not exist"
        else:
            reason = "the file does not exist"
    elif isinstance(error, PermissionError):
        reason = "it is not executable. Make it executable, or put its interpreter before it, such as python"
    elif error.errno == errno.ENOEXEC:
        reason = "it is not a program. Put its interpreter before it, such as python"
    return f"The server cannot be started: {program!r}: {reason}"


# Windows

_UNSAFE: Final = frozenset('"%\r\n')
"""Characters that `cmd.exe` interprets even between quotes."""


def find_command(command: Sequence[str], environment: Mapping[str, str]) -> str | list[str]:
    """Return a command with its program as found on the PATH of its environment, such as the `npx.cmd` of npx.

    `cmd.exe` runs batch files and parses their arguments again, so they are quoted.

    Raises:
        TransportError: An argument of a batch file has characters that cannot be quoted.
    """
    program, *arguments = command
    found = shutil.which(program, path=environment.get("PATH")) or program
    if not found.lower().endswith((".bat", ".cmd")):
        return [found, *arguments]
    for argument in arguments:
        if not _UNSAFE.isdisjoint(argument):
            raise TransportError(
                f"The server cannot be started: {found!r} is a batch file, which cannot receive the "
                f"argument {argument!r}. Start the program that it runs instead",
                may_have_begun=False,
                may_pass=False,
            )
    return " ".join(f'"{each}"' for each in (found, *arguments))


if sys.platform == "win32":
    import ctypes
    import subprocess
    from ctypes import wintypes

    _EXTENDED_LIMIT_INFORMATION: Final = 9
    _KILL_ON_JOB_CLOSE: Final = 0x2000
    _TERMINATE: Final = 0x0001
    _SET_QUOTA: Final = 0x0100

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _Limits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.SetInformationJobObject.argtypes = (
        wintypes.HANDLE,
        ctypes.c_int,
        wintypes.LPVOID,
        wintypes.DWORD,
    )
    _kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    _kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    _kernel.OpenProcess.restype = wintypes.HANDLE
    _kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)

    class Job:
        """A job object with a process and its descendants, which Windows ends when this process has ended.

        Args:
            process: The process.
        """

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._process = process
            self._handle: int | None = _kernel.CreateJobObjectW(None, None)
            if not self._handle:
                return
            limits = _Limits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
            _kernel.SetInformationJobObject(
                self._handle, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
            )
            handle = _kernel.OpenProcess(_TERMINATE | _SET_QUOTA, False, process.pid)
            if handle:
                _kernel.AssignProcessToJobObject(self._handle, handle)
                _kernel.CloseHandle(handle)

        def terminate(self) -> None:
            """End the processes of the job."""
            if self._handle:
                _kernel.TerminateJobObject(self._handle, 1)
            self._process.terminate()  # if it could not be added to the job

        def close(self) -> None:
            """Close the job, which ends its remaining processes."""
            if self._handle:
                _kernel.CloseHandle(self._handle)
                self._handle = None
