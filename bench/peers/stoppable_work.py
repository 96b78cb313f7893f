"""Functions that take long, and write a file when they begin and when they stop. Importable in any process."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path


async def wait(folder: str, seconds: float) -> str:
    """Wait in the event loop."""
    write_event(folder, "begun")
    try:
        await asyncio.sleep(seconds)
    finally:
        write_event(folder, "stopped")
    return "waited"


def sleep(folder: str, seconds: float) -> str:
    """Sleep, in whatever the server runs a plain function in."""
    write_event(folder, "begun")
    time.sleep(seconds)
    write_event(folder, "stopped")
    return "slept"


def spin(folder: str, seconds: float) -> str:
    """Keep a processor busy."""
    write_event(folder, "begun")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    write_event(folder, "stopped")
    return "span"


async def answer() -> str:
    """Answer at once."""
    return "here"


def write_event(folder: str, name: str) -> None:
    """Write a file with the time and the process."""
    new = Path(folder) / f"{name}.new"
    new.write_text(f"{time.monotonic()} {os.getpid()}")
    new.rename(new.with_suffix(""))
