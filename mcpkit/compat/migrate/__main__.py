"""The command `mcpkit migrate`, or `python -m mcpkit.compat.migrate`: its arguments and its output."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..._utils.package import missing_package

if TYPE_CHECKING:
    import libcst as cst

    from .rewriter import Project

_SKIPPED_FOLDERS = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv"}
_SERVER_WORDS = (b"mcp", b".tool(", b".resource(", b".prompt(", b".run(", b".settings", b".lifespan_context")
_REASONS = {
    "lowlevel": "not rewritten, because it uses the low-level Server of the official SDK. Run it unchanged with "
    "`mcpkit run --compat {file}`",
    "fastmcp": "not rewritten, because it uses the package fastmcp. Run it unchanged with "
    "`mcpkit run --compat {file}`",
}


def main(arguments: Sequence[str] | None = None, program: str = "python -m mcpkit.compat.migrate") -> int:
    """Run the command and return the exit status.

    Args:
        arguments: Arguments after the name of the program; None for those of this process.
        program: Name of the program in its help.

    Returns:
        0 for success; 1 with `--check` if a file would change; 2 if a file could not be read, parsed or written.

    Raises:
        SystemExit: The arguments are invalid, or request the help.
    """
    options = _parser(program).parse_args(arguments)
    try:
        from .rewriter import Project
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        _print_error(missing_package("mcpkit.compat.migrate", "the package libcst", "migrate"))
        return 2
    is_complete, changes = _changes(options.paths, Project())
    for change in changes:
        old, new, name = _lines(change.before.code), _lines(change.after.code), f"{change.file}"
        for text in difflib.unified_diff(old, new, name, name):
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n\\ No newline at end of file\n")
    for change in changes:
        for line, text in change.marks:
            _print_error(f"{change.file}:{line}: {text}")
    for change in changes if options.write else ():
        try:
            _write(change.file, change.after.bytes)
        except OSError as error:
            _print_error(f"{change.file}: {error}")
            is_complete = False
    if not is_complete:
        return 2
    return 1 if options.check and changes else 0


@dataclass(frozen=True)
class Change:
    """A changed file.

    Attributes:
        file: Path of the file.
        before: The previous content.
        after: The new content.
        marks: Places to change by hand: line and text.
    """

    file: Path
    before: cst.Module
    after: cst.Module
    marks: tuple[tuple[int, str], ...]


def _changes(paths: Sequence[Path], project: Project) -> tuple[bool, list[Change]]:
    """Return True if all files could be read, and the changes; print the files that are not rewritten."""
    is_complete, changes = True, list[Change]()
    modules: dict[Path, cst.Module] = {}
    for path in paths:
        files = list(_files(path))
        if not files:
            _print_error(f"{path}: no such file, and not a folder with Python files")
            is_complete = False
        for file in files:
            try:
                source = b"" if path == file else file.read_bytes()
                if path == file or any(word in source for word in _SERVER_WORDS):
                    modules[file] = project.module(file)
            except (OSError, ValueError) as error:
                _print_error(f"{file}: {error}")
                is_complete = False
    from .rewriter import has_servers, rewritten

    is_part = any(map(has_servers, modules.values()))
    for file, before in modules.items():
        servers = project.servers_in(file)
        are_native = bool(servers) and all(servers.values())
        after = rewritten(before, set(servers), are_native=are_native, is_part=is_part)
        if after.reason is not None:
            _print_error(f"{file}: {_REASONS[after.reason].format(file=file)}")
        if after.module is not None:
            changes.append(Change(file, before, after.module, after.marks))
    return is_complete, changes


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Rewrite servers from mcp.server.fastmcp to mcpkit. The command prints the changes as a diff to "
        "standard output. Comments `# mcpkit: ...` mark what you have to change by hand; they are also listed on "
        "standard error.",
        epilog=f"Example: {program} server.py",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="Python file or folder")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", action="store_true", help="write the changes to the files")
    mode.add_argument("--check", action="store_true", help="exit with status 1 if a file would change")
    return parser


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        if path.exists():
            yield path
        return
    for file in sorted(path.rglob("*.py")):
        parts = file.relative_to(path).parts
        if not any(part in _SKIPPED_FOLDERS or part.startswith(".") for part in parts):
            yield file


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").splitlines(keepends=True)


def _write(file: Path, source: bytes) -> None:
    """Replace the content of a file atomically.

    Raises:
        OSError: The file cannot be written.
    """
    file = file.resolve()
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(source)
        temporary.chmod(file.stat().st_mode & 0o7777)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _print_error(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
