"""What the tests of functions that raise to end the process have in common: functions of all kinds that do."""

# Without `from __future__ import annotations`: the annotations name what is local to a function.
import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from mcpkit import Context, Depends, Server

Raise = Callable[[], Any]


def functions(fail: Raise) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return functions of all kinds that fail, with their options; those named `thread` do so in a worker thread."""

    def opened() -> Iterator[None]:
        fail()
        yield

    async def opened_later() -> AsyncIterator[None]:
        fail()
        yield

    def closed() -> Iterator[None]:
        yield
        fail()

    async def closed_later() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(0)
        fail()

    async def nothing() -> None: ...

    def synchronous() -> None:
        fail()

    def yielding():  # type: ignore[no-untyped-def]
        yield 1
        fail()

    async def asynchronous() -> None:
        fail()

    async def waiting() -> None:
        await asyncio.sleep(0)
        fail()

    async def yielding_later():  # type: ignore[no-untyped-def]
        yield 1
        fail()

    async def returning() -> Any:
        return yielding()

    def awaited() -> Any:
        return waiting()

    def depends(given: Annotated[None, Depends(nothing)]) -> None:
        fail()

    def depends_awaited(given: Annotated[None, Depends(lambda: None)]) -> Any:
        return waiting()

    async def depends_later(given: Annotated[None, Depends(nothing)]) -> None:
        fail()

    def opens(given: Annotated[None, Depends(opened)]) -> None: ...

    def opens_later(given: Annotated[None, Depends(opened_later)]) -> None: ...

    async def closes(given: Annotated[None, Depends(closed)]) -> str:
        return "done"

    async def closes_later(given: Annotated[None, Depends(closed_later)]) -> str:
        return "done"

    def asks(ctx: Context) -> None:
        ctx.sync.once("key", fail)

    return {
        "coroutine": (asynchronous, {}),
        "waiting": (waiting, {}),
        "in time": (waiting, {"timeout": 600}),
        "quick": (synchronous, {"thread": False}),
        "quick generator": (yielding, {"thread": False}),
        "async generator": (yielding_later, {}),
        "awaited": (awaited, {}),
        "depends later": (depends_later, {}),
        "depends awaited": (depends_awaited, {}),
        "opens later": (opens_later, {}),
        "closes later": (closes_later, {}),
        "thread": (synchronous, {}),
        "thread in time": (synchronous, {"timeout": 600, "concurrency": 1}),
        "thread generator": (yielding, {}),
        "thread returned generator": (returning, {}),
        "thread depends": (depends, {}),
        "thread opens": (opens, {}),
        "thread closes": (closes, {}),
        "thread once": (asks, {}),
    }


@pytest.fixture
def unretrieved() -> Iterator[list[dict[str, Any]]]:
    """What the event loop is told of exceptions that nobody has looked at: nothing, by the end of the test."""
    told: list[dict[str, Any]] = []
    yield told
    gc.collect()
    assert told == []


def failing(name: str, error: type[BaseException]) -> Server:
    def fail() -> None:
        raise error

    server = Server("s")
    function, options = functions(fail)[name]
    server.tool(name="fail", **options)(function)
    server.resource("data://fail", name="fail", **options)(function)
    server.prompt(name="fail", **options)(function)

    @server.tool
    async def well() -> str:
        return "well"

    return server
