"""The Python files of a project: which they are, and when one of them has been edited."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from ..exit_status import CommandError
from ..targets.folders import projects_of, root_of
from ..targets.served import place_of

_IGNORED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Folders that are not watched, besides those with a leading dot."""

_MOST_FOLDERS: Final = 2000
"""Maximum number of watched folders; those nearest to the root come first."""

_GATHERED: Final = 50
"""Milliseconds without another edit that end a group of edits."""

_GONE: Final = 0.5
"""Seconds between checks for a project folder that was removed."""


def roots_of(target: str) -> list[Path]:
    """Return the folders whose Python files make a server.

    That is the folder from which the file, or the module, is imported, or the nearest one above it that has a
    `pyproject.toml`, where there is one below the user's home.

    Args:
        target: What the command line calls the server.

    Raises:
        CommandError: It is no file and no module.
        FileNotFoundError: There is no such file.
    """
    place = place_of(target)
    if place is None:
        raise CommandError(f"the server must be FILE.py, FILE.py:OBJECT or MODULE:OBJECT, got {target!r}")
    if place.path is not None:
        return [_project(place.path.resolve().parent)]
    with suppress(ImportError, ValueError):
        spec = find_spec(place.module.partition(".")[0])
        if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
            return list(dict.fromkeys((_project(Path.cwd()), _project(Path(spec.origin).parent))))
    return [_project(Path.cwd())]


def _project(folder: Path) -> Path:
    root, home = root_of(folder), Path.home()
    return next((each for each in projects_of(root) if not home.is_relative_to(each)), root)


class _Seen(NamedTuple):
    """What there is at one time: the folders, and when each file in them was written, with its size and inode."""

    folders: list[str]
    files: dict[str, tuple[int, int, int]]


class Project:
    """The Python files below some folders.

    Args:
        roots: The folders.
    """

    def __init__(self, roots: list[Path]) -> None:
        self._roots = roots

    async def edits(self) -> AsyncGenerator[list[str]]:
        """Yield the paths of files that have been written, added or removed since the first step, and since the last.

        The first list is empty: it says that edits are seen from now on.
        """
        known = self._look()
        is_begun = False
        while True:
            if not known.folders:
                await asyncio.sleep(_GONE)
            with suppress(FileNotFoundError):
                async with aclosing(_signals(known.folders or [os.curdir])) as signals:
                    async for _ in signals:
                        now = self._look()
                        edited = sorted(
                            path
                            for path in {**known.files, **now.files}
                            if known.files.get(path) != now.files.get(path)
                        )
                        are_others = now.folders != known.folders
                        known = now
                        if edited or not is_begun:
                            is_begun = True
                            yield edited
                        if are_others:
                            break
            known = _Seen(self._look().folders, known.files)

    def _look(self) -> _Seen:
        seen = _Seen([], {})
        for folder, files in self._folders():
            seen.folders.append(folder)
            for file in files:
                with suppress(OSError):
                    status = file.stat()
                    seen.files[file.path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return seen

    def _folders(self) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
        waiting = deque(map(str, self._roots))
        count = 0
        while waiting and count < _MOST_FOLDERS:
            folder = waiting.popleft()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            count += 1
            shown = [each for each in entries if not each.name.startswith((".", "#"))]
            waiting += [
                each.path
                for each in shown
                if each.is_dir(follow_symlinks=False) and each.name not in _IGNORED
            ]
            yield folder, [each for each in shown if each.name.endswith(".py") and each.is_file()]


async def _signals(folders: list[str]) -> AsyncGenerator[None]:
    """Yield when the folders are watched, and whenever something has happened in one of them."""
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # it names trio's types

    async with aclosing(
        awatch(*folders, watch_filter=None, recursive=False, step=_GATHERED, ignore_permission_denied=True)
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
