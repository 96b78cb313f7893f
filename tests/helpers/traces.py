"""What the tests of calls with hidden parameters have in common: a trace of what is opened and closed."""

# Without `from __future__ import annotations`: the annotations name what is local to a function, which strings cannot.
import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

from mcpkit import Depends, Server


class Trace:
    """What has happened, in any thread."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._changed = threading.Condition()

    def add(self, event: str) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    async def reach(self, event: str) -> None:
        """Wait until something has happened."""

        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: event in self.events, 10)

        assert await asyncio.to_thread(wait), self.events

    def sync(self, name: str) -> Callable[[], Iterator[str]]:
        """Return a generator function that tells what it hears."""

        def generator() -> Iterator[str]:
            self.add(f"open {name}")
            try:
                yield name
            except BaseException as error:
                self.add(f"{name} hears {type(error).__name__}")
                raise
            finally:
                self.add(f"close {name}")

        return generator

    def coroutine(self, name: str) -> Callable[[], AsyncIterator[str]]:
        """Return an async generator function that does."""

        async def generator() -> AsyncIterator[str]:
            self.add(f"open {name}")
            try:
                yield name
            except BaseException as error:
                self.add(f"{name} hears {type(error).__name__}")
                raise
            finally:
                await asyncio.sleep(0)
                self.add(f"close {name}")

        return generator


@contextmanager
def traced() -> Iterator[Trace]:
    """Make a trace, which is told what the package logs, too."""
    trace = Trace()
    handler = logging.Handler()
    handler.emit = lambda record: trace.add(f"log {told_by(record)}")  # type: ignore[method-assign]
    logger = logging.getLogger("mcpkit")
    logger.addHandler(handler)
    try:
        yield trace
    finally:
        logger.removeHandler(handler)


def told_by(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return f"{record.getMessage()}: {error}"


WAYS = ["async all", "async mixed", "sync all", "sync mixed", "sync last"]


def register(way: str, server: Server, trace: Trace, body: Callable[[], str]) -> None:
    """Register a tool that depends on `a` and `b`: one function in five ways, with `body` in it."""
    a = trace.coroutine("a") if way in {"async all", "sync mixed", "sync last"} else trace.sync("a")
    b = trace.coroutine("b") if way in {"async all", "async mixed", "sync mixed"} else trace.sync("b")

    def between(value: Annotated[str, Depends(a)]) -> str:
        trace.add("between")
        return value

    async def between_in_the_loop(value: Annotated[str, Depends(a)]) -> str:
        trace.add("between")
        return value

    middle = between_in_the_loop if way == "async all" else between

    async def in_the_loop(one: Annotated[str, Depends(middle)], two: Annotated[str, Depends(b)]) -> str:
        trace.add("body")
        return one + two + body()

    def in_a_thread(one: Annotated[str, Depends(middle)], two: Annotated[str, Depends(b)]) -> str:
        trace.add("body")
        return one + two + body()

    server.tool(in_the_loop if way.startswith("async") else in_a_thread, name="look")
