"""A lock between processes, by a locked file that exists only while the lock is held."""

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
    """Hold a lock for a short time, in a thread that may block.

    Args:
        path: The file to lock, in an existing folder.
    """
    while (held := _taken(path)) is None:
        time.sleep(_AGAIN)
    try:
        yield
    finally:
        _leave(path, held)


@asynccontextmanager
async def locked_meanwhile(path: Path) -> AsyncGenerator[None]:
    """Hold a lock without blocking the event loop.

    Args:
        path: The file to lock, in an existing folder.
    """
    while (held := _taken(path)) is None:  # noqa: ASYNC110  # nothing tells when
        await asyncio.sleep(_AGAIN)
    try:
        yield
    finally:
        _leave(path, held)


def _taken(path: Path) -> int | None:
    """Return the descriptor of the locked file; None while another process holds the lock."""
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
    """Return whether the locked file is still the one at the path; the last holder may have removed it."""
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
