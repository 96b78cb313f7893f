"""Calls with hidden parameters: where what they depend on runs, when it is closed, and what it hears of the outcome."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Annotated, Any

import pytest

from mcpkit import (
    Context,
    Depends,
    PromptError,
    ProtocolError,
    ResourceError,
    Server,
    ToolError,
)
from mcpkit.injection.call import _left_behind
from mcpkit.testing import Client, connect
from wire.pipe import settle

pytestmark = pytest.mark.anyio

variable = ContextVar("variable", default="nobody")


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


def told_by(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return f"{record.getMessage()}: {error}"


@pytest.fixture
def trace() -> Iterator[Trace]:
    trace = Trace()
    handler = logging.Handler()
    handler.emit = lambda record: trace.add(f"log {told_by(record)}")  # type: ignore[method-assign]
    logger = logging.getLogger("mcpkit")
    logger.addHandler(handler)
    yield trace
    logger.removeHandler(handler)


@pytest.fixture
def server() -> Server:
    return Server("s")


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
async def test_what_was_opened_last_is_closed_first_before_the_result_leaves(
    way: str, server: Server, trace: Trace
) -> None:
    register(way, server, trace, lambda: "!")
    async with connect(server) as client:
        assert (await client.call("look")).text == "ab!"
    assert trace.events == ["open a", "between", "open b", "body", "close b", "close a"]


@pytest.mark.parametrize("way", WAYS)
async def test_an_exception_of_the_handler_is_raised_at_each_yield(
    way: str, server: Server, trace: Trace
) -> None:
    def fail() -> str:
        raise ToolError("no such thing")

    register(way, server, trace, fail)
    async with connect(server) as client:
        result = await client.call("look")
    assert (result.is_error, result.text) == (True, "no such thing")
    assert trace.events[4:] == ["b hears ToolError", "close b", "a hears ToolError", "close a"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_exception_goes_on_though_a_generator_has_caught_it(
    is_async: bool, server: Server, trace: Trace
) -> None:
    def catches() -> Iterator[str]:
        try:
            yield "x"
        except ToolError:
            trace.add("caught")

    async def catches_in_the_loop() -> AsyncIterator[str]:
        try:
            yield "x"
        except ToolError:
            trace.add("caught")

    @server.tool
    async def look(
        one: Annotated[str, Depends(trace.coroutine("a"))],
        two: Annotated[str, Depends(catches_in_the_loop if is_async else catches)],
    ) -> str:
        raise ToolError("no such thing")

    async with connect(server) as client:
        assert (await client.call("look")).text == "no such thing"
    assert trace.events == ["open a", "caught", "a hears ToolError", "close a"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_closing_raises_is_what_the_call_raises_and_what_others_hear(
    is_async: bool, server: Server, trace: Trace
) -> None:
    def commit() -> Iterator[str]:
        yield "x"
        raise ToolError("the commit failed")

    @server.tool
    async def in_the_loop(
        one: Annotated[str, Depends(trace.sync("a"))], two: Annotated[str, Depends(commit)]
    ) -> str:
        return "done"

    @server.tool
    def in_a_thread(
        one: Annotated[str, Depends(trace.sync("a"))], two: Annotated[str, Depends(commit)]
    ) -> str:
        return "done"

    async with connect(server) as client:
        result = await client.call("in_the_loop" if is_async else "in_a_thread")
    assert (result.is_error, result.text) == (True, "the commit failed")
    assert trace.events == ["open a", "a hears ToolError", "close a"]


@pytest.mark.parametrize("way", ["async", "sync"])
async def test_what_a_dependency_raises_is_what_a_handler_would_have_raised(
    way: str, server: Server, trace: Trace
) -> None:
    def fails(ctx: Context, first: Annotated[str, Depends(trace.sync("a"))]) -> Iterator[str]:
        kind = {"tools/call": ToolError, "prompts/get": PromptError}.get(ctx.method, ResourceError)
        raise kind("not today")
        yield ""

    async def fails_in_the_loop(failure: Annotated[str, Depends(fails)]) -> str: ...

    failing = fails if way == "sync" else fails_in_the_loop

    @server.tool
    async def tool(value: Annotated[str, Depends(failing)]) -> str: ...

    @server.prompt
    def prompt(value: Annotated[str, Depends(failing)]) -> str: ...

    @server.resource("data://fixed")
    def fixed(value: Annotated[str, Depends(failing)]) -> str: ...

    async with connect(server) as client:
        assert (await client.call("tool")).text == "not today"
        with pytest.raises(ProtocolError, match="not today"):
            await client.get_prompt("prompt")
        with pytest.raises(ProtocolError, match="not today"):
            await client.read("data://fixed")
    assert trace.events == ["open a", "a hears ToolError", "close a"] + [
        event
        for kind in ("PromptError", "ResourceError")
        for event in ("open a", f"a hears {kind}", "close a")
    ]


async def test_an_unexpected_error_tells_no_secrets(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    def connects() -> str:
        raise OSError("password=123")

    @server.tool
    async def look(db: Annotated[str, Depends(connects)]) -> str: ...

    async with connect(server) as client:
        result = await client.call("look")
    assert result.is_error
    assert "123" not in result.text
    assert "password=123" in caplog.text


# Where it runs


async def test_sync_functions_run_in_a_worker_thread_and_async_ones_in_the_loop(server: Server) -> None:
    def blocks() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def waits() -> bool:
        return threading.current_thread() is threading.main_thread()

    @server.tool
    async def in_the_loop(
        sync: Annotated[bool, Depends(blocks)], coroutine: Annotated[bool, Depends(waits)]
    ) -> list[bool]:
        return [sync, coroutine]

    @server.tool
    def in_a_thread(
        sync: Annotated[bool, Depends(blocks)], coroutine: Annotated[bool, Depends(waits)]
    ) -> list[bool]:
        return [sync, coroutine]

    async with connect(server) as client:
        assert (await client.call("in_the_loop")).structured == [False, True]
        assert (await client.call("in_a_thread")).structured == [False, True]


async def test_what_a_sync_handler_ends_its_parameters_with_shares_its_thread(server: Server) -> None:
    """So that a connection that knows its thread, as sqlite3's does, can be opened, used and closed."""
    threads: list[int] = []

    def opens() -> Iterator[int]:
        threads.append(threading.get_ident())
        yield threads[0]
        threads.append(threading.get_ident())

    async def waits() -> None: ...

    @server.tool
    def look(first: Annotated[None, Depends(waits)], opened: Annotated[int, Depends(opens)]) -> str:
        threads.append(threading.get_ident())
        return "done"

    async with connect(server) as client:
        await client.call("look")
    assert len(threads) == 3
    assert len(set(threads)) == 1


@pytest.mark.parametrize("is_async", [True, False])
async def test_context_variables_reach_what_is_depended_on_and_last_until_it_is_closed(
    is_async: bool, server: Server
) -> None:
    seen: list[str] = []

    def sets() -> Iterator[str]:
        seen.append(variable.get())
        token = variable.set("the generator")
        yield "x"
        seen.append(variable.get())
        variable.reset(token)

    async def sets_in_the_loop() -> AsyncIterator[str]:
        seen.append(variable.get())
        token = variable.set("the coroutine")
        yield "x"
        seen.append(variable.get())
        variable.reset(token)

    @server.tool
    async def in_the_loop(
        one: Annotated[str, Depends(sets_in_the_loop)], two: Annotated[str, Depends(sets)]
    ) -> str:
        return variable.get()

    @server.tool
    def in_a_thread(
        one: Annotated[str, Depends(sets_in_the_loop)], two: Annotated[str, Depends(sets)]
    ) -> str:
        return variable.get()

    async with connect(server) as client:
        told = (await client.call("in_the_loop" if is_async else "in_a_thread")).text
    assert told == ("the coroutine" if is_async else "the generator")
    assert seen == ["nobody", "the coroutine", "the generator", "the coroutine"]


async def test_a_blocking_dependency_leaves_the_loop_to_others(server: Server) -> None:
    released = threading.Event()

    def blocks() -> bool:
        return released.wait(10)

    @server.tool
    async def waits(value: Annotated[bool, Depends(blocks)]) -> bool:
        return value

    @server.tool
    async def release() -> str:
        released.set()
        return "released"

    async with connect(server) as client:
        waiting = asyncio.create_task(client.call("waits"))
        await client.call("release")
        assert (await waiting).structured is True


# Cancelled and late


async def cancel(client: Client, trace: Trace, started: str) -> None:
    """Call `look`, and cancel it once something has happened; return when the call is over for its caller."""
    call = asyncio.create_task(client.call("look"))
    await trace.reach(started)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
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
    released = threading.Event()

    @server.tool(timeout=0.05)
    def look(one: Annotated[str, Depends(trace.coroutine("a"))]) -> None:
        trace.add("started")
        assert released.wait(10)

    async with connect(server) as client:
        assert "timed out" in (await client.call("look")).text
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


async def test_what_waits_for_a_thread_when_it_is_cancelled_is_closed_all_the_same(trace: Trace) -> None:
    server = Server("s", threads=1)
    released = threading.Event()

    @server.tool
    def block() -> None:
        trace.add("blocking")
        assert released.wait(10)

    @server.tool
    async def look(value: Annotated[str, Depends(trace.sync("a"))]) -> None:
        trace.add("started")
        await go_on.wait()

    go_on = asyncio.Event()
    async with connect(server) as client:
        looking = asyncio.create_task(client.call("look"))
        await trace.reach("started")
        blocking = asyncio.create_task(client.call("block"))
        await trace.reach("blocking")
        go_on.set()
        await client.list_tools()  # by now closing waits for the only thread
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
        released.set()
        await blocking
        await trace.reach("close a")


async def test_where_threads_are_stuck_a_generator_is_closed_all_the_same(trace: Trace) -> None:
    server = Server("s", stuck_threads=0)
    released = threading.Event()

    @server.tool
    def block() -> None:
        trace.add("blocking")
        assert released.wait(10)

    @server.tool
    async def look(value: Annotated[str, Depends(trace.sync("a"))]) -> str:
        trace.add("started")
        await go_on.wait()
        return "done"

    go_on = asyncio.Event()
    async with connect(server) as client:
        looking = asyncio.create_task(client.call("look"))
        await trace.reach("started")
        blocking = asyncio.create_task(client.call("block"))
        await trace.reach("blocking")
        blocking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await blocking
        await settle()
        go_on.set()
        assert (await looking).text == "done"
        released.set()
    assert trace.events == ["open a", "started", "blocking", "close a"]


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


def raises_system_exit() -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_dependency_that_leaves_the_program_leaves_the_call_alone(
    is_async: bool, server: Server
) -> None:
    async def raises_in_the_loop(ctx: Context) -> Any:
        raises_system_exit()

    def blocks() -> None: ...

    @server.tool
    async def look(
        nothing: Annotated[None, Depends(blocks)],
        value: Annotated[Any, Depends(raises_in_the_loop if is_async else raises_system_exit)],
    ) -> None: ...

    async with connect(server) as client:
        assert (await client.call("look")).is_error
