"""Polling for conditions without an event, clocks that tests move, and a busy event loop."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DEFAULT_TIMEOUT = 30.0


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so; half a minute without it is a failure."""
    deadline = time.monotonic() + DEFAULT_TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        await asyncio.sleep(0.001)


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something is so; half a minute without it is a failure."""
    deadline = time.monotonic() + DEFAULT_TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.001)


async def over(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.wait([task])


class Clock:
    """A clock that the test moves.

    Args:
        now: When it begins, in seconds.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class LoopClock:
    """The time of the running event loop, which can be moved forward.

    Attributes:
        ahead: The seconds that it has been moved.
    """

    def __init__(self) -> None:
        self.ahead = 0.0
        loop = asyncio.get_running_loop()
        self._time = loop.time
        loop.time = self  # type: ignore[method-assign]  # of this loop alone, which ends with the test

    def __call__(self) -> float:
        return self._time() + self.ahead


@contextmanager
def blocked_loop(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Keep an event loop busy while another thread works: new callbacks wait for its next turn."""
    is_busy, is_over = threading.Event(), threading.Event()

    def block() -> None:
        is_busy.set()
        assert is_over.wait(10)

    loop.call_soon_threadsafe(block)
    assert is_busy.wait(10)
    try:
        yield
    finally:
        is_over.set()


class Work:
    """Work that begins, waits and ends in the sight of a test.

    Attributes:
        started: Set when it begins to wait.
        gate: What it waits for; the test opens it.
        cancelled: Set when it is cancelled as it waits.
        done: Set when it has passed the gate.
        released: What work in a thread waits for.
        failure: What was raised to it.
    """

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.done = asyncio.Event()
        self.released = threading.Event()
        self.failure: BaseException | None = None

    async def wait(self) -> None:
        """Wait for the gate, and record the end."""
        self.started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        self.done.set()
