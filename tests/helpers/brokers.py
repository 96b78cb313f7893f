"""What the tests of broker and store in memory have in common: a clock, threads, and calls without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from mcpkit.state.broker import Broker

T = TypeVar("T")

THREADS = 8


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


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


def read(broker: Broker, key: str) -> dict[str, str]:
    return dict(finished(broker.read(key)))


def write(broker: Broker, key: str, changes: Mapping[str, str | None], ttl: float = 60) -> None:
    finished(broker.write(key, changes, ttl))


def claim(broker: Broker, key: str, ttl: float = 60) -> bool:
    return finished(broker.claim(key, ttl))
