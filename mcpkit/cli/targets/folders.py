"""The folders that a file of an author's belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def projects_of(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it that have a `pyproject.toml`, the nearest first.

    Args:
        folder: The folder, as an absolute path.
    """
    return (each for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file())


def root_of(folder: Path) -> Path:
    """Return the folder from which what is in a folder is imported: above the packages that it is in."""
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder
