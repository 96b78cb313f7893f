"""Once a function has returned, what it depends on is closed to the end, whatever happens to its call meanwhile."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from mcpkit import Depends, Server
from mcpkit.calls.coroutines import within
from mcpkit.middleware import CallNext, Request
from mcpkit.testing import Client, connect
from tests.helpers.pipe import settle
from tests.helpers.waiting import LoopClock, over, until

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
FUNCTIONS = pytest.mark.parametrize("function", ["coroutine", "thread", "loop", "async generator"])


class Closing:
    """What a function depends on: to close it takes as long as the test wants.

    Attributes:
        events: What has happened.
        begun: Set when it is being closed.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._may_end = threading.Event()
        self._may_end_in_loop = asyncio.Event()

    async def coroutine(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            self.events.append(f"hears {type(error).__name__}")
            raise
        finally:
            self.begun.set()
            await self._may_end_in_loop.wait()
            await asyncio.sleep(0)
            self.events.append("closed")

    def thread(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.events.append(f"hears {type(error).__name__}")
            raise
        finally:
            self._loop.call_soon_threadsafe(self.begun.set)
            self._may_end.wait(10)
            self.events.append("closed")

    def let_go(self) -> None:
        self._may_end.set()
        self._may_end_in_loop.set()


@pytest.fixture
async def closing() -> Closing:
    return Closing()


def add(server: Server, function: str, dependency: Callable[[], Any], **options: Any) -> None:
    """Add a tool `work` of some kind that depends on something."""
    Given = Annotated[None, Depends(dependency)]

    async def coroutine(given: Given) -> str:  # type: ignore[valid-type]
        return "done"

    def synchronous(given: Given) -> str:  # type: ignore[valid-type]
        return "done"

    async def yielding(given: Given):  # type: ignore[no-untyped-def, valid-type]
        yield "done"

    functions = {
        "coroutine": coroutine,
        "thread": synchronous,
        "loop": synchronous,
        "async generator": yielding,
    }
    if function == "loop":
        options["thread"] = False
    server.tool(name="work", **options)(functions[function])


@ERAS
@FUNCTIONS
@pytest.mark.parametrize("dependency", ["coroutine", "thread"])
async def test_a_cancellation_comes_too_late(
    dependency: str, function: str, revision: str, closing: Closing
) -> None:
    server = Server("s")
    add(server, function, getattr(closing, dependency))
    async with connect(server, revision=revision) as client:
        call = asyncio.create_task(client.call("work"))
        await closing.begun.wait()
        await over(call)
        assert call.cancelled()
        assert closing.events == []
        closing.let_go()
        await until(lambda: closing.events)
    assert closing.events == ["closed"]


@ERAS
@FUNCTIONS
@pytest.mark.parametrize("dependency", ["coroutine", "thread"])
async def test_the_end_of_its_time_frees_the_caller_alone(
    dependency: str, function: str, revision: str, closing: Closing
) -> None:
    server = Server("s")
    add(server, function, getattr(closing, dependency), timeout=0.1, concurrency=1)
    async with connect(server, revision=revision) as client:
        assert (await client.call("work")).text == "timed out after 0.1 s"
        assert closing.events == []
        closing.let_go()
        await until(lambda: closing.events)
    assert closing.events == ["closed"]


@FUNCTIONS
async def test_a_middleware_that_has_no_patience_waits_for_it(function: str, closing: Closing) -> None:
    server = Server("s")
    add(server, function, closing.coroutine)

    @server.middleware
    async def impatient(request: Request, call_next: CallNext) -> Any:
        return await within(60, call_next(request))

    clock = LoopClock()

    async def let_go() -> None:
        await closing.begun.wait()
        clock.ahead += 61
        await settle()
        assert closing.events == []
        closing.let_go()

    async with connect(server) as client:
        letting_go = asyncio.create_task(let_go())
        assert (await client.call("work")).is_error
        await letting_go
    assert closing.events == ["closed"]


@FUNCTIONS
@pytest.mark.parametrize("dependency", ["coroutine", "thread"])
async def test_the_end_of_the_server_waits_for_it(dependency: str, function: str, closing: Closing) -> None:
    server = Server("s")
    add(server, function, getattr(closing, dependency))
    client = await leave_at(server, closing)
    assert closing.events == ["closed"]
    with pytest.raises(ConnectionError):
        await client


async def leave_at(server: Server, closing: Closing) -> "asyncio.Task[Any]":
    """Close the client of a server while a call is closing, and return the call."""
    async with connect(server) as client:
        call = asyncio.create_task(client.call("work"))
        await closing.begun.wait()
        asyncio.get_running_loop().call_later(0.05, closing.let_go)
    return call


async def test_what_closing_raises_then_is_logged(closing: Closing, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    async def failing() -> AsyncIterator[None]:
        yield
        closing.begun.set()
        await closing._may_end_in_loop.wait()
        raise ValueError("cannot be closed")

    add(server, "coroutine", failing)
    async with connect(server) as client:
        call = asyncio.create_task(client.call("work"))
        await closing.begun.wait()
        await over(call)
        closing.let_go()
        await until(lambda: "what a function depends on failed after its call was over" in caplog.text)
    assert "cannot be closed" in caplog.text


async def test_a_function_that_is_cancelled_before_is_heard_of(closing: Closing) -> None:
    server, started = Server("s"), asyncio.Event()

    @server.tool
    async def work(given: Annotated[None, Depends(closing.coroutine)]) -> None:
        started.set()
        await asyncio.Event().wait()

    async def call_and_cancel(client: Client) -> None:
        call = asyncio.create_task(client.call("work"))
        await started.wait()
        await over(call)

    async with connect(server) as client:
        await call_and_cancel(client)
        closing.let_go()
        await until(lambda: "closed" in closing.events)
    assert closing.events == ["hears CancelledError", "closed"]
