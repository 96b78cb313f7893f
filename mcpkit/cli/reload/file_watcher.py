"""Watches the Python files of a project, and reports those that are edited."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..._utils.package import missing_package
from ..exit_status import CommandError
from ..server_loader import import_root, parse_server_location, projects_of

_IGNORED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Folders that are not watched, besides those with a leading dot."""

_MAX_FOLDERS: Final = 2000
"""Maximum number of watched folders; those nearest to the root come first."""

_GROUP_TIME: Final = 50
"""Milliseconds without another edit that end a group of edits."""

_MISSING_INTERVAL: Final = 0.5
"""Seconds between checks for a project folder that was removed."""


def watch_roots(target: str) -> list[Path]:
    """Return the root folders of a server's Python files.

    A root is the folder from which the file or module is imported, or the nearest folder above it with a
    `pyproject.toml` below the user's home.

    Args:
        target: The server on the command line.

    Raises:
        CommandError: The target is neither a file nor a module, or watchfiles is not installed.
        FileNotFoundError: The file does not exist.
    """
    if find_spec("watchfiles") is None:
        raise CommandError(missing_package("--reload", "the package watchfiles", "cli"))
    place = parse_server_location(target)
    if place is None:
        raise CommandError(f"the server must be FILE.py, FILE.py:OBJECT or MODULE:OBJECT, got {target!r}")
    if place.path is not None:
        return [_project_root(place.path.resolve().parent)]
    roots = [_project_root(Path.cwd())]
    with suppress(ImportError, ValueError):
        spec = find_spec(place.module.partition(".")[0])
        if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
            roots.append(_project_root(Path(spec.origin).parent))
    return list(dict.fromkeys(roots))


def _project_root(folder: Path) -> Path:
    root, home = import_root(folder), Path.home()
    return next((each for each in projects_of(root) if not home.is_relative_to(each)), root)


async def edited_files(roots: list[Path]) -> AsyncGenerator[list[str]]:
    """Yield the paths of Python files below some folders that were written, added or removed since the last step.

    The first list is empty: from then on edits are noticed.

    Args:
        roots: The folders.
    """
    folders, files = _snapshot(roots)
    is_first = True
    while True:
        if not folders:
            await asyncio.sleep(_MISSING_INTERVAL)
        with suppress(FileNotFoundError):
            async with aclosing(_events(folders or [os.curdir])) as events:
                async for _ in events:
                    watched, before = folders, files
                    folders, files = _snapshot(roots)
                    paths = sorted({**before, **files})
                    edited = [path for path in paths if before.get(path) != files.get(path)]
                    if edited or is_first:
                        is_first = False
                        yield edited
                    if watched != folders:
                        break
        folders, _ = _snapshot(roots)


def _snapshot(roots: list[Path]) -> tuple[list[str], dict[str, tuple[int, int, int]]]:
    """Return the folders to watch, and modification time, size and inode of the Python files in them."""
    folders: list[str] = []
    files: dict[str, tuple[int, int, int]] = {}
    waiting = deque(map(str, roots))
    while waiting and len(folders) < _MAX_FOLDERS:
        folder = waiting.popleft()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        folders.append(folder)
        for each in entries:
            if each.name.startswith((".", "#")):
                continue
            if each.is_dir(follow_symlinks=False) and each.name not in _IGNORED:
                waiting.append(each.path)
            if each.name.endswith(".py") and each.is_file():
                with suppress(OSError):
                    status = each.stat()
                    files[each.path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return folders, files


async def _events(folders: list[str]) -> AsyncGenerator[None]:
    """Yield once when the folders are watched, and after each change in one of them."""
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # it names trio's types

    async with aclosing(
        awatch(*folders, watch_filter=None, recursive=False, step=_GROUP_TIME, ignore_permission_denied=True)
    ) as batches:
        while True:
            batch = asyncio.ensure_future(anext(batches))
            try:
                await asyncio.sleep(0)  # from here on it is watched
                if batch.done():
                    batch.result()
                yield
                await batch
            finally:
                if not batch.done():
                    batch.cancel()
                    with suppress(asyncio.CancelledError):
                        await batch
