"""Child processes on Windows: finding programs, and job objects, which end a process and its descendants."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from ..._utils.exceptions import TransportError

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
