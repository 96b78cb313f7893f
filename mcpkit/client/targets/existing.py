"""Checks whether a path exists, and suggests a similar one."""

from __future__ import annotations

from pathlib import Path

from ..._utils.option_checks import nearest


def existing(path: Path) -> Path:
    """Return a path where there is something.

    Raises:
        FileNotFoundError: There is nothing; the message names what is there and is called nearly so.
    """
    if path.exists():
        return path
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} does not exist, nor does the folder {folder.absolute()}")
    close = nearest(path.name, (each.name for each in folder.iterdir()))
    raise FileNotFoundError(
        f"{path} does not exist in {folder.absolute()}"
        + (f"; did you mean {folder / close}?" if close else "")
    )
