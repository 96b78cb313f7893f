"""The files of a server that is given as a file or a module: that one, and its own modules that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..targets.folders import root_of
from ..targets.served import place_of

_MOST: Final = 200


def sources_of(word: str) -> list[Path]:
    """Return the files of a server; none where a word of the command line means something else than a file or a module.

    Args:
        word: `FILE.py`, `FILE.py:OBJECT` or `MODULE:OBJECT`, which is looked for in this folder.
    """
    try:
        place = place_of(word)
    except FileNotFoundError:  # a command that ends with a file
        return []
    if place is None:
        return []
    root = Path.cwd()
    first = place.path
    if first is not None:
        root = root_of(first.parent)
    found: dict[Path, None] = dict.fromkeys(
        [first] if first is not None else _files(root, place.module.split("."))
    )
    waiting = list(found)
    while waiting and len(found) < _MOST:
        path = waiting.pop(0)
        for each in _imported(path, root):
            if each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)


def _imported(path: Path, root: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield from _files(root, each.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            parts = node.module.split(".") if node.module else []
            yield from _files(folder, parts)
            for each in node.names:
                yield from _files(folder, [*parts, each.name])


def _files(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the file that a module is in, where it is below a folder."""
    if parts:
        module = folder.joinpath(*parts)
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if path.is_file():
                yield path
