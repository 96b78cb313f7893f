"""Output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, TextIO
from urllib.parse import unquote, urlsplit

from .._utils.package import install_command
from ..client.call_results import decode_base64_text
from ..protocol.jsonrpc import is_object
from .exit_status import CommandError, Status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


_WIDTH_OF_PIPES: Final = 10_000
"""Columns of output that is not a terminal, where each row is one line."""

_STDERR_TIMEOUT: Final = 3.0
"""Seconds after which a server's standard error is shown, though it has not responded yet."""


# Consoles of rich. It is imported for tables and progress bars alone.


@cache
def rich_console(*, is_stderr: bool = False) -> Console:
    """Return the console of standard output, or of standard error.

    Raises:
        CommandError: rich is not installed.
    """
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
    console = rich_console()  # raises CommandError, before rich is imported below
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
            console = rich_console(is_stderr=True)  # raises CommandError, before rich is imported below
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


# Content of results

_SUFFIXES: Final = {"image/jpeg": ".jpg", "audio/wav": ".wav", "audio/mpeg": ".mp3", "text/plain": ".txt"}
_RESERVED_NAMES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
)
"""Names of devices on Windows."""
_MAX_NAME: Final = 80


def write_content(block: Mapping[str, object], *, folder: Path, name: str) -> None:
    """Write a content block to standard output, or save it in a file.

    Args:
        block: The content block.
        folder: The folder for images, audio and other binary content.
        name: The name of the file, without suffix.

    Raises:
        CommandError: The content is not valid base64.
        OSError: The file cannot be written.
    """
    kind, resource = block.get("type"), block.get("resource")
    data, mime_type = block.get("data"), block.get("mimeType")
    if kind == "text":
        write(str(block.get("text", "")))
        return
    if kind == "resource_link":
        about = [str(block[key]) for key in ("title", "name", "mimeType") if block.get(key)]
        write(f"{block.get('uri')}  {', '.join(dict.fromkeys(about))}".rstrip())
        return
    if kind == "resource" and is_object(resource):
        if "blob" not in resource:
            write(str(resource.get("text", "")))
            return
        data, mime_type = resource["blob"], resource.get("mimeType")
        name = file_name_of_uri(str(resource.get("uri", "")))
    elif kind not in ("image", "audio"):
        write_json(block)
        return
    content = decode_base64(data, f"content of type {mime_type} from the server")
    save_content(content, mime_type, folder=folder, name=name)


def decode_base64(data: object, subject: str) -> bytes:
    """Decode base64 of a server, with either alphabet and with or without padding.

    Args:
        data: The text.
        subject: The subject of the error message.

    Raises:
        CommandError: The text is not valid base64.
    """
    try:
        return decode_base64_text(data if isinstance(data, str) else "-")
    except ValueError:
        raise CommandError(f"{subject} is not valid base64. Correct the server", Status.TOOL_ERROR) from None


def save_content(content: bytes, mime_type: object, *, folder: Path, name: str) -> None:
    """Save content in a new file, and write its path to standard error.

    Raises:
        OSError: The file cannot be written.
    """
    path = create_file(content, folder, name, mime_type)
    write_stderr(f"saved {path} ({mime_type or 'bytes'}, {len(content):,} bytes)")


def create_file(content: bytes, folder: Path, name: str, mime_type: object) -> Path:
    """Create a file that does not exist yet, and return its path.

    Args:
        content: The content of the file.
        folder: The folder; it is created if it does not exist.
        name: The name; characters that are not safe are replaced, and a number is added if the file exists.
        mime_type: The media type, for the suffix.

    Raises:
        OSError: The file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem, suffix = _stem_and_suffix(name, mime_type)
    for number in count(1):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}{suffix}"
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def file_name_of_uri(uri: str) -> str:
    """Return the file name for the content of a resource."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "resource"
    return unquote(PurePosixPath(parts.path).name) or parts.netloc or "resource"


def _stem_and_suffix(name: str, mime_type: object) -> tuple[str, str]:
    stem = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)[:_MAX_NAME].strip(".")
    media_type = mime_type.partition(";")[0].strip() if isinstance(mime_type, str) else ""
    suffix = _SUFFIXES.get(media_type) or mimetypes.guess_extension(media_type) or ""
    before, dot, own_suffix = stem.rpartition(".")
    if dot and before and own_suffix.isalnum() and len(own_suffix) <= 5:
        stem, suffix = before, f".{own_suffix}"
    if stem.casefold() in _RESERVED_NAMES:
        stem = f"_{stem}"
    return stem or "content", suffix or ".bin"
