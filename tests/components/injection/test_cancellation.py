"""Calls with hidden parameters that are cancelled, or go on after their time: what they use is closed all the same."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

import pytest

from mcpkit import Depends, Server
from mcpkit.components.injection.run import _left_behind
from mcpkit.testing import CallResult, Client, connect
from tests.helpers.pipe import settle
from tests.helpers.traces import Trace, register, traced
from tests.helpers.waiting import LoopClock, over

pytestmark = pytest.mark.anyio


@pytest.fixture
def trace() -> Iterator[Trace]:
    with traced() as trace:
        yield trace


@pytest.fixture
def server() -> Server:
    return Server("s")


async def cancel(client: Client, trace: Trace, started: str) -> None:
    """Call `look`, and cancel it once something has happened; return when the call is over for its caller."""
    call = asyncio.create_task(client.call("look"))
    await trace.reach(started)
    await over(call)
    assert call.cancelled()
    await settle()


@pytest.mark.parametrize("way", ["async all", "async mixed"])
async def test_a_cancelled_coroutine_is_heard_of_at_each_yield(
    way: str, server: Server, trace: Trace
) -> None:
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
    assert trace.events[3:] == ["b hears CancelledError", "close b", "a hears CancelledError", "close a"]


@pytest.mark.parametrize("way", ["sync all", "sync mixed", "sync last"])
@pytest.mark.parametrize("outcome", ["returns", "raises"])
@pytest.mark.parametrize("limit", [None, 600.0])
async def test_what_an_abandoned_thread_uses_is_closed_when_it_returns(
    way: str,
    outcome: str,
    limit: float | None,
    server: Server,
    trace: Trace,
) -> None:
    released = threading.Event()
    server.timeout = limit

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
            await trace.reach("log a function in a worker thread failed after its call was over: late")
    assert len([event for event in trace.events if event.startswith("log")]) == (outcome == "raises")
    told = [event for event in trace.events[len(opened) :] if not event.startswith("log")]
    if outcome == "returns":
        assert told == ["close b", "close a"]
    else:
        assert told == ["b hears ValueError", "close b", "a hears ValueError", "close a"]


async def test_a_call_out_of_time_leaves_its_thread_what_it_uses(server: Server, trace: Trace) -> None:
    clock = LoopClock()
    released = threading.Event()

    @server.tool(timeout=100)
    def look(one: Annotated[str, Depends(trace.coroutine("a"))]) -> None:
        trace.add("started")
        assert released.wait(10)

    async with connect(server) as client:
        call = asyncio.create_task(client.call("look"))
        await trace.reach("started")
        clock.ahead += 100
        assert (await call).text == "timed out after 100 s"
        assert "close a" not in trace.events
        released.set()
        await trace.reach("close a")
    assert trace.events == ["open a", "started", "close a"]


async def test_a_generator_that_is_still_opening_in_a_thread_is_closed_after_it_has(
    server: Server, trace: Trace
) -> None:
    released = threading.Event()

    def slow(first: Annotated[str, Depends(trace.coroutine("a"))]) -> Iterator[str]:
        trace.add("opening")
        assert released.wait(10)
        try:
            yield "x"
        finally:
            trace.add("close slow")

    @server.tool
    async def look(value: Annotated[str, Depends(slow)]) -> None:
        trace.add("body")

    async with connect(server) as client:
        await cancel(client, trace, "opening")
        assert trace.events == ["open a", "opening"]
        released.set()
        await trace.reach("close a")
    assert trace.events == ["open a", "opening", "close slow", "a hears CancelledError", "close a"]


async def test_a_generator_that_is_still_closing_in_a_thread_has_what_it_depends_on(
    server: Server, trace: Trace
) -> None:
    released = threading.Event()

    def slow(first: Annotated[str, Depends(trace.coroutine("a"))]) -> Iterator[str]:
        yield "x"
        trace.add("closing")
        assert released.wait(10)
        trace.add("close slow")

    @server.tool
    async def look(value: Annotated[str, Depends(slow)]) -> None:
        trace.add("body")

    async with connect(server) as client:
        await cancel(client, trace, "closing")
        assert trace.events == ["open a", "body", "closing"]
        released.set()
        await trace.reach("close a")
    assert trace.events == ["open a", "body", "closing", "close slow", "close a"]


class Neighbours:
    """Two calls: `look` uses what is to be closed in a thread, and `block` holds a thread up.

    Attributes:
        go_on: What the function of `look` waits for.
        released: What the one of `block` waits for.
    """

    def __init__(self, server: Server, trace: Trace) -> None:
        self.go_on = asyncio.Event()
        self.released = threading.Event()
        self._trace = trace

        @server.tool
        async def look(value: Annotated[str, Depends(trace.sync("a"))]) -> str:
            trace.add("started")
            await self.go_on.wait()
            trace.add("went on")
            return "done"

        @server.tool
        def block() -> None:
            trace.add("blocking")
            assert self.released.wait(10)

    async def begin(self, client: Client) -> tuple[asyncio.Task[CallResult], asyncio.Task[CallResult]]:
        """Make both calls, and return them when both functions run."""
        looking = asyncio.create_task(client.call("look"))
        await self._trace.reach("started")
        blocking = asyncio.create_task(client.call("block"))
        await self._trace.reach("blocking")
        return looking, blocking


async def test_what_waits_for_a_thread_when_it_is_cancelled_is_closed_all_the_same(trace: Trace) -> None:
    server = Server("s", threads=1)
    neighbours = Neighbours(server, trace)
    async with connect(server) as client:
        looking, blocking = await neighbours.begin(client)
        neighbours.go_on.set()
        await client.list_tools()  # by now closing waits for the only thread
        await over(looking)
        assert looking.cancelled()
        neighbours.released.set()
        await blocking
        await trace.reach("close a")
    assert trace.events[3:] == ["went on", "close a"]


async def test_where_threads_are_stuck_a_generator_is_closed_all_the_same(trace: Trace) -> None:
    server = Server("s", stuck_threads=0)
    neighbours = Neighbours(server, trace)
    async with connect(server) as client:
        looking, blocking = await neighbours.begin(client)
        await over(blocking)
        assert blocking.cancelled()
        await settle()
        neighbours.go_on.set()
        assert (await looking).text == "done"
        neighbours.released.set()
    assert trace.events[3:] == ["went on", "close a"]


async def test_what_closing_raises_after_the_call_is_logged(server: Server, trace: Trace) -> None:
    released = threading.Event()

    async def commits() -> AsyncIterator[str]:
        yield "x"
        raise OSError("the commit failed")

    @server.tool
    def look(value: Annotated[str, Depends(commits)]) -> None:
        trace.add("started")
        assert released.wait(10)

    async with connect(server) as client:
        await cancel(client, trace, "started")
        released.set()
        await trace.reach("log what a function depends on failed after its call was over: the commit failed")


async def test_a_loop_that_ends_does_not_wait_for_an_abandoned_thread(server: Server, trace: Trace) -> None:
    released = threading.Event()

    @server.tool
    def look(value: Annotated[str, Depends(trace.coroutine("a"))]) -> None:
        trace.add("started")
        assert released.wait(10)
        trace.add("returned")

    async with connect(server) as client:
        await cancel(client, trace, "started")
        (left,) = _left_behind
        left.cancel()  # as asyncio.run does with all tasks at its end
        await trace.reach("close a")
        assert trace.events == ["open a", "started", "a hears CancelledError", "close a"]
        released.set()
        await trace.reach("returned")


async def test_a_slot_is_taken_until_everything_is_closed(server: Server, trace: Trace) -> None:
    released = threading.Event()

    @server.tool(concurrency=1)
    def look(value: Annotated[str, Depends(trace.coroutine("a"))]) -> None:
        trace.add("started")
        assert released.wait(10)

    async with connect(server) as client:
        await cancel(client, trace, "started")
        again = asyncio.create_task(client.call("look"))
        await client.list_tools()
        assert trace.events == ["open a", "started"]
        released.set()
        await again
    assert trace.events == ["open a", "started", "close a"] * 2
