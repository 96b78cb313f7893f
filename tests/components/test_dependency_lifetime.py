"""Dependencies with a yield: when they are opened and closed, and the exceptions that they receive."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest

from mcpkit import Depends, Server, ToolError
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import settle
from tests.helpers.waiting import over

pytestmark = pytest.mark.anyio


class Trace:
    """Events of any thread, in their order."""

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
        """Return a generator function that records the exceptions it receives."""

        def generator() -> Iterator[str]:
            self.add(f"open {name}")
            try:
                yield name
            except BaseException as error:
                self.add(f"{name} receives {type(error).__name__}")
                raise
            finally:
                self.add(f"close {name}")

        return generator

    def coroutine(self, name: str) -> Callable[[], AsyncIterator[str]]:
        """Return an async generator function that records the exceptions it receives."""

        async def generator() -> AsyncIterator[str]:
            self.add(f"open {name}")
            try:
                yield name
            except BaseException as error:
                self.add(f"{name} receives {type(error).__name__}")
                raise
            finally:
                await asyncio.sleep(0)
                self.add(f"close {name}")

        return generator


@contextmanager
def traced() -> Iterator[Trace]:
    """Create a trace that also contains log records of the package."""
    trace = Trace()
    handler = logging.Handler()
    handler.emit = lambda record: trace.add(f"log {describe(record)}")  # type: ignore[method-assign]
    logger = logging.getLogger("mcpkit")
    logger.addHandler(handler)
    try:
        yield trace
    finally:
        logger.removeHandler(handler)


def describe(record: logging.LogRecord) -> str:
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


@pytest.mark.parametrize("way", WAYS)
async def test_dependencies_are_closed_in_reverse_order(way: str, server: Server, trace: Trace) -> None:
    register(way, server, trace, lambda: "!")
    async with connect(server) as client:
        assert (await client.call_tool("look")).text == "ab!"
    assert trace.events == ["open a", "between", "open b", "body", "close b", "close a"]


@pytest.mark.parametrize("way", WAYS)
async def test_dependency_receives_exception_of_handler(way: str, server: Server, trace: Trace) -> None:
    def fail() -> str:
        raise ToolError("no such thing")

    register(way, server, trace, fail)
    async with connect(server) as client:
        result = await client.call_tool("look")
    assert (result.is_error, result.text) == (True, "no such thing")
    assert trace.events[4:] == ["b receives ToolError", "close b", "a receives ToolError", "close a"]


def yields_never() -> Iterator[str]:
    return
    yield ""


def yields_twice() -> Iterator[str]:
    yield "a"
    yield "b"


async def yields_never_in_loop() -> AsyncIterator[str]:
    return
    yield ""


async def yields_twice_in_loop() -> AsyncIterator[str]:
    yield "a"
    yield "b"


async def yields_again_after_an_error() -> AsyncIterator[str]:
    try:
        yield "a"
    except ToolError:
        yield "b"


ONCE = "A dependency must yield exactly once"


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (yields_never, "yields_never has not yielded"),
        (yields_twice, "yields_twice has yielded more than once"),
        (yields_never_in_loop, "yields_never_in_loop has not yielded"),
        (yields_twice_in_loop, "yields_twice_in_loop has yielded more than once"),
        (yields_again_after_an_error, "yields_again_after_an_error has yielded more than once"),
    ],
)
async def test_dependency_must_yield_once(
    function: Any, fault: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    async def look(value: Annotated[str, Depends(function)]) -> None:
        if "error" in function.__name__:
            raise ToolError("no such thing")

    async with connect(server) as client:
        result = await client.call_tool("look")
    assert result.text.startswith("Internal error (ref ")
    assert f"RuntimeError: {fault}. {ONCE}" in caplog.text


@pytest.fixture
def trace() -> Iterator[Trace]:
    with traced() as trace:
        yield trace


@pytest.fixture
def server() -> Server:
    return Server("s")


async def cancel(client: TestClient, trace: Trace, started: str) -> None:
    """Call `look`, and cancel it once something has happened; return when the call is over for its caller."""
    call = asyncio.create_task(client.call_tool("look"))
    await trace.reach(started)
    await over(call)
    assert call.cancelled()
    await settle()


@pytest.mark.parametrize("way", ["async all", "async mixed"])
async def test_dependency_receives_cancellation(way: str, server: Server, trace: Trace) -> None:
    a = trace.coroutine("a") if way == "async all" else trace.sync("a")

    @server.tool
    async def look(
        one: Annotated[str, Depends(a)], two: Annotated[str, Depends(trace.coroutine("b"))]
    ) -> None:
        trace.add("started")
        await asyncio.Event().wait()

    async with connect(server) as client:
        await cancel(client, trace, "started")
        await trace.reach("close a")
    assert trace.events[3:] == ["b receives CancelledError", "close b", "a receives CancelledError",
        "close a"]  # fmt: skip


@pytest.mark.parametrize("way", ["sync all", "sync mixed", "sync last"])
@pytest.mark.parametrize("outcome", ["returns", "raises"])
async def test_dependency_of_abandoned_thread_is_closed_on_return(
    way: str, outcome: str, server: Server, trace: Trace
) -> None:
    released = threading.Event()

    def body() -> str:
        trace.add("started")
        assert released.wait(10)
        if outcome == "raises":
            raise ValueError("late")
        return ""

    register(way, server, trace, body)
    async with connect(server) as client:
        await cancel(client, trace, "started")
        opened = ["open a", "between", "open b", "body", "started"]
        assert trace.events == opened
        released.set()
        await trace.reach("close a")
        if outcome == "raises":
            await trace.reach(
                "log a function in a worker thread failed after its call had ended. "
                "The client does not receive this exception: late"
            )
    assert len([event for event in trace.events if event.startswith("log")]) == (outcome == "raises")
    later = [event for event in trace.events[len(opened) :] if not event.startswith("log")]
    if outcome == "returns":
        assert later == ["close b", "close a"]
    else:
        assert later == ["b receives ValueError", "close b", "a receives ValueError", "close a"]
