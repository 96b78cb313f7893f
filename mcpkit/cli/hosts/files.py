"""Files that others own: written at once or not at all, with what was there kept beside them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ..exit_status import CommandError


def content_of(path: Path) -> bytes | None:
    """Return what is in a file, or None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def replace(path: Path, before: bytes | None, after: bytes, *, is_shared: bool = False) -> None:
    """Put something else into a file, which keeps its mode; links are followed.

    Args:
        path: The file.
        before: What was read from it; None where it was not there.
        after: What is to be in it.
        is_shared: Whether others may read a new file; else it is the user's alone.

    Raises:
        CommandError: Somebody has changed it since it was read.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        if before is not None:
            shutil.copymode(path, written)
        elif is_shared:
            written.chmod(0o644)
        if content_of(path) != before:
            raise CommandError(
                f"another process changed {path} in the meantime, so it was not written. Run the command again"
            )
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def keep(path: Path, content: bytes) -> Path:
    """Keep what is in a file beside it, and return where: in FILE.bak, or FILE.bak2 where that keeps something else."""
    path = path.resolve()
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        there = content_of(backup)
        if there is None:
            shutil.copy2(path, backup)
            return backup
        if there == content:
            return backup
        number += 1


def missing_folders(path: Path) -> list[Path]:
    """Return the folders that a file would be in and that are not there, the innermost first."""
    return [folder for folder in path.resolve().parents if not folder.exists()]
