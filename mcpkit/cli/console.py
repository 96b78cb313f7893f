"""Output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from .._utils.package import install_command
from .exit_status import CommandError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_WIDTH_OF_PIPES: Final = 10_000
"""Columns of output that is not a terminal, where each row is one line."""

_STDERR_TIMEOUT: Final = 3.0
"""Seconds after which a server's standard error is shown, though it has not responded yet."""


# Consoles of rich. It is imported for tables and progress bars alone.


@cache
def stdout_console() -> Console:
    """Return the console of standard output.

    Raises:
        CommandError: rich is not installed.
    """
    return _console(is_stderr=False)


@cache
def stderr_console() -> Console:
    """Return the console of standard error.

    Raises:
        CommandError: rich is not installed.
    """
    return _console(is_stderr=True)


def _console(*, is_stderr: bool) -> Console:
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        raise CommandError(f"tables need the package rich. Run: {install_command('cli')}") from None
    stream = sys.stderr if is_stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDTH_OF_PIPES
    return Console(stderr=is_stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


# Text and JSON


def write(text: str) -> None:
    """Write a result to standard output, with a line end."""
    _write_line(text, sys.stdout)


def write_json(value: object) -> None:
    """Write a result as JSON to standard output."""
    write(json.dumps(value, indent=2, ensure_ascii=False))


def write_stderr(text: str) -> None:
    """Write a message to standard error, with a line end and with control characters escaped."""
    _write_line(escape_control_characters(text), sys.stderr)


def _write_line(text: str, stream: TextIO) -> None:
    line = text if text.endswith("\n") else f"{text}\n"
    try:
        stream.write(line)
    except UnicodeEncodeError:  # Windows opens pipes with a code page of 256 characters
        encoding = stream.encoding or "ascii"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def escape_control_characters(text: str) -> str:
    """Escape control characters, so that text of a server cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def relative_path(path: Path) -> Path:
    """Return a path relative to the current folder if it is below it, and unchanged otherwise."""
    folder = Path.cwd()
    return path.relative_to(folder) if path.is_relative_to(folder) else path


# Tables


def write_table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write a table to standard output, as wide as the terminal; in a pipe each row is one line.

    Args:
        title: The line above the table.
        columns: The columns; those without content are omitted.
        rows: The cells of each row, by column.

    Raises:
        CommandError: rich is not installed.
    """
    console = stdout_console()  # raises CommandError, before rich is imported below
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    write(title)
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    columns = [column for column in columns if any(row[column] for row in rows)]
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0, ratio=None)
    for row in rows:
        cells = (" ".join(escape_control_characters(row[column]).split()) for column in columns)
        table.add_row(*map(Text, cells))
    with console.capture() as capture:
        console.print(Padding(table, (0, 0, 0, 2)), soft_wrap=False)
    write("\n".join(line.rstrip() for line in capture.get().splitlines()))


# Progress and standard error of a server


class ProgressDisplay:
    """Progress of a call on standard error: a bar in a terminal, lines elsewhere.

    Args:
        is_verbose: Whether lines are written if there is no terminal.
    """

    def __init__(self, *, is_verbose: bool) -> None:
        self._is_verbose = is_verbose
        self._bar: tuple[Progress, TaskID] | None = None
        self._last_status = ""

    def show_status(self, text: str) -> None:
        """Write the status message of a task if it has changed."""
        if text and text != self._last_status and (self._is_verbose or sys.stderr.isatty()):
            write_stderr(text)
        self._last_status = text

    def show_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Show a progress notification."""
        text = f"{done:g}{'' if total is None else f'/{total:g}'}{f' {message}' if message else ''}"
        if not sys.stderr.isatty():
            if self._is_verbose:
                write_stderr(f"progress: {text}")
            return
        if self._bar is None:
            console = stderr_console()  # raises CommandError, before rich is imported below
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.description}", markup=False))
            progress = Progress(*columns, console=console, transient=True)
            self._bar = progress, progress.add_task("", total=total)
            progress.start()
        progress, task = self._bar
        description = escape_control_characters(text)
        progress.update(task, completed=done, total=total, description=description, refresh=True)

    def close(self) -> None:
        """Remove the bar; the next progress notification draws it again."""
        if self._bar is not None:
            (progress, _), self._bar = self._bar, None
            progress.stop()


class ServerStderr:
    """Standard error of a server's process, kept back until the server responds.

    The error of a server that does not start quotes its last lines, so they are not written a second time.
    """

    def __init__(self) -> None:
        self._lines: list[str] | None = []
        self._timer: asyncio.TimerHandle | None = None

    def add_line(self, line: str) -> None:
        """Keep a line, or write it if `flush` was called before."""
        if self._lines is None:
            write_stderr(line)
            return
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_STDERR_TIMEOUT, self.flush)
        self._lines.append(line)

    def flush(self) -> None:
        """Write the lines kept so far, and each later line at once."""
        if self._timer is not None:
            self._timer.cancel()
        lines, self._lines = self._lines or [], None
        for line in lines:
            write_stderr(line)
