"""The engines that servers share, for tests that hold for all of them, and calls of theirs where no event loop runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from mcpkit import Memory, Sqlite
from waiting import PATIENCE

T = TypeVar("T")

ENGINES = ["memory", "sqlite"]


class _Loop(threading.local):
    """An event loop for each thread, closed with it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def __del__(self) -> None:
        self.loop.close()


_here = _Loop()


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in an event loop of this thread."""
    return _here.loop.run_until_complete(coroutine)


def make_engine(name: str, folder: Path, clock: Callable[[], float] | None = None) -> Memory | Sqlite:
    """Make an engine that is empty."""
    options = {} if clock is None else {"clock": clock}
    return Memory(**options) if name == "memory" else Sqlite(folder / "shared.db", **options)


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something is so; half a minute without it is a failure."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.001)
