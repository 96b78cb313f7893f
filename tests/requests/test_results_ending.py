"""What functions yield ends with their calls, or at a bound; and async generators give their items."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import threading
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Generic, TypeVar

import pytest

from mcpkit import Server
from mcpkit.testing import connect
from tests.helpers.shown import ERAS, Shown, in_loop
from tests.helpers.waiting import over

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("s")


# Its end


@ERAS
async def test_slow_generator_ends_with_the_timeout(server: Server, revision: str) -> None:
    may_go_on, ended = threading.Event(), threading.Event()

    @server.tool(timeout=0.1)
    def slow() -> Any:
        def lines() -> Iterator[str]:
            try:
                while True:
                    yield "line"
                    may_go_on.wait(10)
            finally:
                ended.set()

        return lines()

    async with connect(server, protocol_version=revision) as client:
        assert (await client.call_tool("slow")).text == "timed out after 0.1 s"
        may_go_on.set()
        assert await asyncio.to_thread(ended.wait, 10)  # nobody waits for the other lines


@pytest.mark.parametrize("way", ["async", "thread", "loop", "async generator"])
async def test_endless_iterator_is_refused(
    way: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async def asynchronous() -> Any:
        return count()

    def synchronous() -> Any:
        return count()

    async def yielding():  # type: ignore[no-untyped-def]
        for number in count():
            yield number

    functions = {
        "async": asynchronous,
        "thread": synchronous,
        "loop": synchronous,
        "async generator": yielding,
    }
    server.tool(name="f", **({"run_in": "loop"} if way == "loop" else {}))(functions[way])
    async with connect(server) as client:
        assert (await client.call_tool("f")).is_error
    assert "more than 100,000 items, perhaps endless" in caplog.text


# Async generators


@ERAS
async def test_an_async_generator_gives_its_items(server: Server, revision: str) -> None:
    async def numbers():  # type: ignore[no-untyped-def]
        assert in_loop()
        yield 1
        await asyncio.sleep(0)
        yield [2]

    server.tool(numbers)
    server.resource("data://numbers")(numbers)
    server.prompt(name="asked")(numbers)

    @server.tool
    def called() -> Any:
        return numbers()

    @server.tool
    async def shown() -> Any:
        async def figures() -> AsyncIterator[Any]:
            yield Shown()

        return figures()

    async with connect(server, protocol_version=revision) as client:
        assert (await client.call_tool("numbers")).text == "[1,[2]]"
        assert (await client.call_tool("called")).text == "[1,[2]]"
        assert (await client.call_tool("shown")).text == "shown in a thread"
        assert (await client.read_resource("data://numbers"))[0]["text"] == "[1,[2]]"
        assert [each["content"]["text"] for each in await client.get_prompt("asked")] == ["1", "[2]"]


@pytest.mark.parametrize("end", ["time", "cancellation", "bound"])
async def test_an_async_generator_is_closed(
    end: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    started, closed = asyncio.Event(), asyncio.Event()

    @server.tool(timeout=0.1 if end == "time" else None)
    async def lines():  # type: ignore[no-untyped-def]
        try:
            if end != "bound":
                yield "first"
                started.set()
                await asyncio.Event().wait()
            while True:
                yield "line"
        finally:
            await asyncio.sleep(0)
            closed.set()

    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("lines"))
        if end == "cancellation":
            await started.wait()
            await over(call)
        elif end == "time":
            assert (await call).text == "timed out after 0.1 s"
        else:
            assert (await call).is_error
        await asyncio.wait_for(closed.wait(), 10)


T = TypeVar("T")


class Own(Collection[T], Generic[T]):
    """A collection whose length may be wrong."""

    def __init__(self, items: Any, length: int = 1) -> None:
        self.items_given = items
        self.length = length
        self.threads: set[int] = set()

    def __iter__(self) -> Iterator[T]:
        self.threads.add(threading.get_ident())
        for item in self.items_given:
            self.threads.add(threading.get_ident())
            yield item

    def __len__(self) -> int:
        return self.length

    def __contains__(self, item: object) -> bool:
        return True


class OwnMapping(Own[str], Mapping[str, Any]):
    def __getitem__(self, key: str) -> int:
        return 1


class OwnSequence(Own[Any], Sequence[Any]):
    def __getitem__(self, index: Any) -> Any:
        return index


def names() -> Iterator[str]:
    return map(str, count())


ENDLESS = [lambda: OwnMapping(names()), lambda: OwnSequence(count()), lambda: OwnMapping(names()).items()]


@pytest.mark.slow
@pytest.mark.parametrize("make", ENDLESS)
async def test_endless_collection_is_refused(make: Any, server: Server) -> None:
    @server.tool
    async def tool() -> Any:
        return {"a": (make(),)}

    @server.tool
    async def typed() -> dict[str, int]:
        result: Any = make()
        return result

    async with connect(server) as client:
        for name in ("tool", "typed"):
            result = await asyncio.wait_for(client.call_tool(name), 60)
            assert result.is_error
            assert "100,000 items, perhaps endless" in result.text


@pytest.mark.parametrize("kind", [OwnMapping, OwnSequence])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_collection_of_an_own_class_is_read_in_a_thread(
    kind: Any, revision: str, server: Server
) -> None:
    made: list[Any] = []

    @server.tool
    async def tool() -> Any:
        made.append(kind(["1", "2"], 2))
        return made[-1]

    @server.resource("a://b")
    async def resource() -> Any:
        made.append(kind(["1", "2"], 2))
        return made[-1]

    async with connect(server, protocol_version=revision) as client:
        expected = '{"1":1,"2":1}' if kind is OwnMapping else '["1","2"]'
        assert (await client.call_tool("tool")).text == expected
        assert (await client.read_resource("a://b"))[0]["text"] == expected
    for each in made:
        assert threading.get_ident() not in each.threads
