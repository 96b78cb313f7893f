"""Functions of tools that run in worker processes, which import them from here."""

from __future__ import annotations

import os
import time
from pathlib import Path


def note_and_sleep(path: str) -> str:
    """Say which process this is, and sleep for long."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)
    return "slept"


def add(a: int, b: int) -> int:
    return a + b
