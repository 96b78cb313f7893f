"""Where commands write: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from ..._utils.package import install_command
from ..statuses import CommandError

if TYPE_CHECKING:
    from rich.console import Console

_WIDE: Final = 10_000
"""Columns of output that is not a terminal, where each row is one line."""


@cache
def results() -> Console:
    """Return the console of results, standard output.

    Raises:
        CommandError: rich is not installed.
    """
    return _console(is_error=False)


@cache
def remarks() -> Console:
    """Return the console of all that is no result, standard error.

    Raises:
        CommandError: rich is not installed.
    """
    return _console(is_error=True)


def _console(*, is_error: bool) -> Console:
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        raise CommandError(f"tables need the package rich. Run: {install_command('cli')}") from None
    stream = sys.stderr if is_error else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDE
    return Console(stderr=is_error, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def write_json(value: object) -> None:
    """Write a value as JSON to standard output."""
    write(json.dumps(value, indent=2, ensure_ascii=False))


def write(text: str) -> None:
    """Write a result to standard output, as a line or lines."""
    _put(text, sys.stdout)


def remark(text: str) -> None:
    """Write what is no result to standard error, as a line or lines; the control characters in it are shown as such."""
    _put(printable(text), sys.stderr)


def printable(text: str) -> str:
    """Return a text whose control characters do nothing to a terminal: they are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def _put(text: str, stream: TextIO) -> None:
    line = text if text.endswith("\n") else f"{text}\n"
    try:
        stream.write(line)
    except UnicodeEncodeError:  # what Windows gives a pipe, say
        encoding = stream.encoding or "ascii"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def near(path: Path) -> Path:
    """Return a path as it is called from this folder: relative to it, where it lies below it."""
    folder = Path.cwd()
    return path.relative_to(folder) if path.is_relative_to(folder) else path
