"""SystemExit, GeneratorExit and KeyboardInterrupt that a function raises end its call alone, wherever it runs."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

import process_work as work
from mcpkit import Context, Depends, ProtocolError, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
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


NAMES = list(functions(lambda: None))
FAILURES: list[Any] = [
    *((name, error) for name in NAMES for error in (SystemExit, GeneratorExit)),
    *((name, KeyboardInterrupt) for name in NAMES if name.startswith("thread")),
]


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


@ERAS
@pytest.mark.parametrize(("name", "error"), FAILURES)
async def test_it_ends_its_call_alone(
    name: str, error: type[BaseException], revision: str, unretrieved: list[dict[str, Any]]
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unretrieved.append(context))
    async with connect(failing(name, error), revision=revision) as client:
        result = await client.call("fail")
        assert result.is_error
        assert result.text.startswith("Internal error (ref ")
        for ask in (client.read("data://fail"), client.get_prompt("fail")):
            with pytest.raises(ProtocolError, match=r"Internal error \(ref ") as caught:
                await ask
            assert caught.value.code == -32603
        assert (await client.call("well")).text == "well"


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
async def test_a_middleware_or_a_completer_that_raises_it_is_answered(error: type[BaseException]) -> None:
    server = Server("s")

    async def fail(*_: Any) -> Any:
        raise error

    @server.prompt(complete={"a": fail})
    async def asked(a: str) -> str:
        return a

    server.middleware("prompts/list")(fail)
    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.list_prompts()
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.complete("asked", "a", "x")
        assert (await client.get_prompt("asked", {"a": "well"}))[0]["content"]["text"] == "well"


async def test_it_ends_no_worker_process() -> None:
    server = Server("s", processes=1)
    server.tool(process=True)(work.fail)
    server.tool(process=True)(work.where)
    async with connect(server) as client:
        place = (await client.call("where")).structured
        for how in ("exit", "interrupt", "stop", "close"):
            assert (await client.call("fail", {"how": how})).text.startswith("Internal error (ref ")
        assert (await client.call("where")).structured == place
