"""A lock between processes: whoever holds it has locked a file, which is there only meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

_AGAIN: Final = 0.02
"""Seconds between two attempts to get a lock: there is no non-blocking notification of its release."""


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold a lock for a moment, in a thread that may wait for it.

    Args:
        path: The file that is locked, in a folder that is there.
    """
    while (held := _taken(path)) is None:
        time.sleep(_AGAIN)
    try:
        yield
    finally:
        _leave(path, held)


@asynccontextmanager
async def locked_meanwhile(path: Path) -> AsyncGenerator[None]:
    """Hold a lock while others of the event loop go on, also those that wait for it.

    Args:
        path: The file that is locked, in a folder that is there.
    """
    while (held := _taken(path)) is None:  # noqa: ASYNC110  # nothing tells when
        await asyncio.sleep(_AGAIN)
    try:
        yield
    finally:
        _leave(path, held)


def _taken(path: Path) -> int | None:
    """Return the descriptor of the file, locked; None while another has it."""
    try:
        held = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except PermissionError:
        if sys.platform == "win32":  # which refuses a file that is being removed
            return None
        raise
    try:
        if _is_locked(held) and _is_still(path, held):
            return held
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None


def _is_still(path: Path, held: int) -> bool:
    """Say whether the locked file is the one at the path, and not one that its last holder has removed."""
    try:
        return os.path.samestat(path.stat(), os.fstat(held))
    except FileNotFoundError:
        return False


def _leave(path: Path, held: int) -> None:
    if sys.platform == "win32":
        os.close(held)  # unlocks; removed only while nobody else has it open
        with suppress(OSError):
            path.unlink()
    else:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(held)


if sys.platform == "win32":
    import msvcrt

    def _is_locked(held: int) -> bool:
        try:
            msvcrt.locking(held, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _is_locked(held: int) -> bool:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
