"""A clock that tests move, threads that start together, and coroutines that must not suspend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

THREADS = 8


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that must not suspend, with no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    pytest.fail("the coroutine suspends")


def in_threads(work: Callable[[int], None]) -> None:
    """Run `work(number)` in THREADS threads that start together; raise what any of them raises."""
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        gate.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))
