"""Results are made where the function ran: what takes long is not made in the event loop, and ends with the call."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import pytest

from mcpkit import Context, Depends, File, Image, Server, ToolResult, user
from mcpkit.testing import TestClient, connect
from tests.helpers.shown import ERAS, Shown, in_loop
from tests.helpers.waiting import over

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("s")


async def both(client: TestClient, name: str) -> list[str]:
    return [block["text"] for block in (await client.call_tool(name)).content]


# What is made


@ERAS
async def test_generator_of_a_thread_runs_in_its_thread(server: Server, revision: str) -> None:
    threads: list[int] = []

    def numbers():  # type: ignore[no-untyped-def]
        threads.append(threading.get_ident())
        yield 1
        threads.append(threading.get_ident())
        yield {"a": 2}

    @server.tool
    def called() -> Any:
        threads.append(threading.get_ident())
        return numbers()

    server.tool(numbers)
    server.resource("data://numbers")(numbers)
    server.prompt(name="asked")(numbers)

    @server.resource("data://{name}/numbers")
    def templated(name: str) -> Any:
        return numbers()

    async with connect(server, protocol_version=revision) as client:
        assert (await client.call_tool("numbers")).text == '[1,{"a":2}]'
        assert (await client.call_tool("called")).text == '[1,{"a":2}]'
        assert len(set(threads[2:])) == 1
        assert [each["text"] for each in await client.read_resource("data://numbers")] == ['[1,{"a":2}]']
        assert [each["text"] for each in await client.read_resource("data://x/numbers")] == ['[1,{"a":2}]']
        assert [each["content"]["text"] for each in await client.get_prompt("asked")] == ["1", '{"a":2}']
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    "value",
    [
        Shown,
        lambda: [Shown(), "text"],
        lambda: ToolResult([Shown()]),
        lambda: iter([Shown()]),
    ],
)
@pytest.mark.parametrize("way", ["async", "thread", "loop"])
async def test_rendering_of_own_objects_runs_in_a_thread(
    way: str, value: Callable[[], Any], server: Server
) -> None:
    async def asynchronous() -> Any:
        return value()

    def synchronous() -> Any:
        return value()

    options = {"run_in": "loop"} if way == "loop" else {}
    server.tool(name="f", **options)(asynchronous if way == "async" else synchronous)
    async with connect(server) as client:
        assert (await both(client, "f"))[0] == "shown in a thread"


async def test_a_file_of_a_coroutine_is_read_in_a_thread(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    read_in: list[bool] = []
    read = File._read

    def told(file: File) -> Any:
        data = read(file)
        read_in.append(in_loop())
        return data

    monkeypatch.setattr(File.__mro__[1], "_read", told)

    @server.tool
    async def both() -> Any:
        return [File(path), Image(tmp_path / "a.png")]

    @server.resource("data://a")
    async def resource() -> File:
        return File(path)

    @server.prompt
    async def prompt() -> list[Any]:
        return [user(File(path)), "text"]

    async with connect(server) as client:
        assert [block["type"] for block in (await client.call_tool("both")).content] == ["resource", "image"]
        assert (await client.read_resource("data://a"))[0]["text"] == "text"
        assert len(await client.get_prompt("prompt")) == 2
    assert read_in == [False] * 4


async def test_a_figure_of_pyplot_is_closed(server: Server) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    @server.tool
    def draw() -> Any:
        figure, axes = plt.subplots()
        axes.plot([1, 2])
        return figure

    other = plt.figure()
    before = plt.get_fignums()
    try:
        async with connect(server) as client:
            assert (await client.call_tool("draw")).content[0]["type"] == "image"
        assert plt.get_fignums() == before
    finally:
        plt.close(other)


# What it depends on, and what it asks


@pytest.mark.parametrize("way", ["async", "thread", "loop", "async generator"])
@pytest.mark.parametrize("dependency", ["async", "thread"])
async def test_generator_may_use_its_dependencies(way: str, dependency: str, server: Server) -> None:
    class Database:
        is_open = True

    def opened() -> Iterator[Database]:
        yield (database := Database())
        database.is_open = False

    async def opened_later() -> AsyncIterator[Database]:
        yield (database := Database())
        database.is_open = False

    Given = Annotated[Database, Depends(opened if dependency == "thread" else opened_later)]

    def rows(database: Given):  # type: ignore[no-untyped-def, valid-type]
        yield database.is_open
        yield in_loop()

    async def rows_later(database: Given):  # type: ignore[no-untyped-def, valid-type]
        return rows(database)

    async def rows_async(database: Given):  # type: ignore[no-untyped-def, valid-type]
        yield database.is_open
        yield in_loop()

    functions = {"async": rows_later, "thread": rows, "loop": rows, "async generator": rows_async}
    server.tool(name="f", **({"run_in": "loop"} if way == "loop" else {}))(functions[way])
    async with connect(server) as client:
        assert (await client.call_tool("f")).structured_content == [True, way in ("loop", "async generator")]


@ERAS
@pytest.mark.parametrize("way", ["thread", "async generator", "iterator"])
async def test_a_generator_may_ask(way: str, server: Server, revision: str) -> None:
    def lines(ctx: Context):  # type: ignore[no-untyped-def]
        yield "first"
        yield f"name: {ctx.sync.elicit('Your name?', str).value}"

    async def lines_later(ctx: Context):  # type: ignore[no-untyped-def]
        yield "first"
        yield f"name: {(await ctx.elicit('Your name?', str)).value}"

    async def iterator(ctx: Context):  # type: ignore[no-untyped-def]
        return lines(ctx)

    server.tool(name="f")({"thread": lines, "async generator": lines_later, "iterator": iterator}[way])

    async def answer(method: str, params: Any) -> Any:
        return {"action": "accept", "content": {"value": "Ada"}}

    async with connect(server, protocol_version=revision, request_handler=answer) as client:
        assert (await client.call_tool("f")).text == '["first","name: Ada"]'


@ERAS
async def test_file_of_a_sampling_request_is_read_in_a_thread(
    server: Server, revision: str, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    @server.tool
    async def look(ctx: Context) -> str:
        image = Image(tmp_path / "a.png")
        return (await ctx.sample([user(image), user(Shown())], max_tokens=10)).text

    def answer(method: str, params: Any) -> dict[str, Any]:
        contents = [message["content"] for message in params["messages"]]
        assert contents[0]["type"] == "image"
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": contents[1]["text"]}}

    async with connect(server, protocol_version=revision, request_handler=answer) as client:
        assert (await client.call_tool("look")).text == "shown in a thread"


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
