"""Starts child processes, and explains why they cannot be started."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..._utils.exceptions import TransportError

if sys.platform == "win32":
    from .windows import find_command

_PASSING: Final = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETXTBSY})
"""Errors of a system that has no room just now, or of a program that is just being written."""

Folder = str | os.PathLike[str] | None


def start(
    command: Sequence[str], environment: Mapping[str, str], cwd: Folder
) -> tuple[subprocess.Popen[bytes], tuple[int, int, int]]:
    """Start a child process at the head of a group of its own, with pipes for its standard streams.

    Args:
        command: The program and its arguments.
        environment: All of its environment.
        cwd: Where it runs; None for the folder of this process.

    Returns:
        The process; and our ends of the pipes, non-blocking on POSIX: to its input, from its output and its errors.

    Raises:
        TransportError: It cannot be started.
    """
    pipes: list[tuple[int, int]] = []
    ours: list[int] = []
    try:
        for _ in range(3):
            pipes.append(os.pipe())
        (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = pipes
        ours = [to_stdin, from_stdout, from_stderr]
        process = _start(command, (stdin, stdout, stderr), environment, cwd)
        if sys.platform != "win32":
            for descriptor in ours:
                os.set_blocking(descriptor, False)
    except BaseException as error:
        for descriptor in ours:
            os.close(descriptor)
        if isinstance(error, OSError) and not isinstance(error, TransportError):
            raise TransportError(
                _why_not(error, command[0], environment, cwd),
                may_have_begun=False,
                may_pass=error.errno in _PASSING,
            ) from error
        raise
    finally:
        for descriptor in (end for pipe in pipes for end in pipe if end not in ours):
            os.close(descriptor)
    return process, (to_stdin, from_stdout, from_stderr)


if sys.platform == "win32":

    def _start(
        command: Sequence[str], streams: tuple[int, int, int], environment: Mapping[str, str], cwd: Folder
    ) -> subprocess.Popen[bytes]:
        stdin, stdout, stderr = streams
        return subprocess.Popen(
            find_command(command, environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=cwd,
            creationflags=subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP,
        )

else:

    def _start(
        command: Sequence[str], streams: tuple[int, int, int], environment: Mapping[str, str], cwd: Folder
    ) -> subprocess.Popen[bytes]:
        stdin, stdout, stderr = streams
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )


def _why_not(error: OSError, program: str, environment: Mapping[str, str], cwd: Folder) -> str:
    """Explain why a process could not be started, and what to change."""
    if cwd is not None and error.filename == cwd:
        return f"The server cannot be started in cwd={os.fspath(cwd)!r}: {error.strerror}"
    reason = f"{error.strerror}"
    if isinstance(error, FileNotFoundError):
        if Path(program).name != program:
            has_file = Path(cwd or ".", program).exists()
            reason = (
                "its first line names an interpreter that does not exist"
                if has_file
                else "the file does not exist"
            )
        else:
            path = environment.get("PATH") or "which is empty"
            reason = f"it is not on PATH ({path}). Install it, give its full path, or set PATH in env"
    elif isinstance(error, PermissionError):
        reason = "it is not executable. Make it executable, or put its interpreter before it, such as python"
    elif error.errno == errno.ENOEXEC:
        reason = "it is not a program. Put its interpreter before it, such as python"
    return f"The server cannot be started: {program!r}: {reason}"
