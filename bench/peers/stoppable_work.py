"""Functions that take long, tell when they begin, and when they stop if they get to it. Importable in any process."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path


async def wait(folder: str, seconds: float) -> str:
    """Wait in the event loop."""
    tell(folder, "begun")
    try:
        await asyncio.sleep(seconds)
    finally:
        tell(folder, "stopped")
    return "waited"


def sleep(folder: str, seconds: float) -> str:
    """Sleep, in whatever the server runs a plain function in."""
    tell(folder, "begun")
    time.sleep(seconds)
    tell(folder, "stopped")
    return "slept"


def spin(folder: str, seconds: float) -> str:
    """Keep a processor busy."""
    tell(folder, "begun")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    tell(folder, "stopped")
    return "span"


async def answer() -> str:
    """Answer at once."""
    return "here"


def tell(folder: str, name: str) -> None:
    """Leave a file that says when this was called, and in which process."""
    new = Path(folder) / f"{name}.new"
    new.write_text(f"{time.monotonic()} {os.getpid()}")
    new.rename(new.with_suffix(""))
