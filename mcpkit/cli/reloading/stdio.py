"""`mcpkit run --reload` over standard input and output."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Sequence
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path

from ..._utils.package import install_command
from ..._utils.python_safe_path import mcpkit_command
from ...storage.base import SECRET_VARIABLE
from ...transports.standard_streams import (
    StandardStreams,
    hold_standard_descriptors,
    take_over_standard_streams,
)
from ..exit_status import CommandError
from .supervisor import Supervisor, say
from .watching import Project, roots_of


def run_reloading(target: str, arguments: Sequence[str], options: Sequence[str] = ()) -> int:
    """Serve over standard input and output, by a process that is replaced when the code is edited.

    Args:
        target: What the command line calls the server.
        arguments: What is for the file itself.
        options: More for `mcpkit run`.

    Returns:
        The status to end with: 0 at the end of input, 128 and the number of a signal.

    Raises:
        CommandError: The target is no file and no module, or watchfiles is not installed.
        FileNotFoundError: There is no such file.
    """
    roots = project_of(target)
    say(f"serving {target}, watching Python files in {', '.join(map(str, roots))}")
    command = mcpkit_command("run", *options, target, "--", *arguments)
    with hold_standard_descriptors(), take_over_standard_streams() as streams:
        return asyncio.run(_serve(command, roots, streams))


def project_of(target: str) -> list[Path]:
    """Return the folders that are watched for edits of a server.

    Raises:
        CommandError: The target is no file and no module, or watchfiles is not installed.
        FileNotFoundError: There is no such file.
    """
    if find_spec("watchfiles") is None:
        raise CommandError(f"--reload needs the package watchfiles. Run: {install_command('cli')}")
    return roots_of(target)


def environment() -> dict[str, str]:
    """Return the environment of all processes of a server.

    What one of them has signed the next one knows again. No bytecode is written: Python takes it for that of an edited
    file where two edits within a second have left the size as it was.
    """
    return {
        **os.environ,
        SECRET_VARIABLE: os.environ.get(SECRET_VARIABLE) or secrets.token_urlsafe(32),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


async def _serve(command: Sequence[str], roots: list[Path], streams: StandardStreams) -> int:
    loop = asyncio.get_running_loop()
    ended_by: list[int] = []
    async with aclosing(Project(roots).edits()) as edits:
        serving = asyncio.ensure_future(Supervisor(command, environment(), edits, streams).serve())

        def end(number: int) -> None:
            ended_by.append(number)
            serving.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # on Windows, where SIGINT raises KeyboardInterrupt
                loop.add_signal_handler(number, end, number)
        try:
            await serving
        except asyncio.CancelledError:
            if not ended_by:
                raise
    return 128 + ended_by[0] if ended_by else 0
