"""The functions that bench/libraries.py runs in worker processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path


class OwnArgumentsError(Exception):
    """An exception whose class takes other arguments than `args` has, as is common."""

    def __init__(self, city: str, days: int) -> None:
        super().__init__(f"{city} in {days} days")


def add(a: int, b: int) -> int:
    return a + b


def prints() -> str:
    subprocess.run(["/bin/echo", "progress"], check=True)
    return "done"


def raises() -> None:
    raise OwnArgumentsError("Oslo", 3)


async def awaits() -> str:
    await asyncio.sleep(0)
    return "done"


def waits_for_a_child(file: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(file).write_text(str(child.pid))
    child.wait()
