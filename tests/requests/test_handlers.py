"""Results are made where the function ran: what takes long is not made in the event loop, and ends with the call."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from typing import Annotated, Any

import pytest

from mcpkit import Context, Depends, File, Image, Server, ToolResult, user
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row
from tests.helpers.waiting import over, until


def in_loop() -> bool:
    return threading.current_thread() is threading.main_thread()


class Shown:
    """Shows where it is shown."""

    def _repr_markdown_(self) -> str:
        return "shown in the loop" if in_loop() else "shown in a thread"


PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def server() -> Server:
    return Server("s")


def register(server: Server, function: Callable[..., Any], way: str) -> None:
    """Register a function as the tool `f`; the way `loop` runs a synchronous one in the event loop."""
    server.tool(name="f", **({"run_in": "loop"} if way == "loop" else {}))(function)


def register_all(server: Server, function: Callable[[], Any]) -> None:
    """Register a function as a tool, a resource and a prompt."""
    server.tool(function, name="f")
    server.resource("data://f", name="f")(function)
    server.prompt(function, name="f")


async def texts_of_all(client: TestClient) -> tuple[str, list[str], list[str]]:
    """Return the texts of the tool, the resource and the prompt that `register_all` registers."""
    contents = [each["text"] for each in await client.read_resource("data://f")]
    messages = [each["content"]["text"] for each in await client.get_prompt("f")]
    return (await client.call_tool("f")).text, contents, messages


# Generators


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

    register_all(server, numbers)
    server.resource("data://{name}/f", name="template")(lambda name: numbers())
    async with connect(server, protocol_version=revision) as client:
        assert (await client.call_tool("called")).text == '[1,{"a":2}]'
        assert len(set(threads)) == 1
        assert await texts_of_all(client) == ('[1,{"a":2}]', ['[1,{"a":2}]'], ["1", '{"a":2}'])
        assert (await client.read_resource("data://x/f"))[0]["text"] == '[1,{"a":2}]'
    assert threading.get_ident() not in threads


async def test_async_generator_gives_its_items(server: Server, revision: str) -> None:
    async def numbers():  # type: ignore[no-untyped-def]
        assert in_loop()
        yield 1
        await asyncio.sleep(0)
        yield [2]

    @server.tool
    async def shown() -> Any:
        async def figures() -> AsyncIterator[Any]:
            yield Shown()

        return figures()

    register_all(server, numbers)
    server.tool(lambda: numbers(), name="called")
    async with connect(server, protocol_version=revision) as client:
        assert await texts_of_all(client) == ("[1,[2]]", ["[1,[2]]"], ["1", "[2]"])
        assert (await client.call_tool("called")).text == "[1,[2]]"
        assert (await client.call_tool("shown")).text == "shown in a thread"


@pytest.mark.parametrize("way", ["async", "thread", "loop", "async generator"])
async def test_generator_may_use_its_dependencies(way: str, server: Server) -> None:
    is_open: list[bool] = []

    async def opened() -> AsyncIterator[list[bool]]:
        is_open.append(True)
        yield is_open
        is_open.clear()

    Given = Annotated[list[bool], Depends(opened)]

    def rows(value: Given):  # type: ignore[no-untyped-def, valid-type]
        yield bool(value)
        yield in_loop()

    async def rows_later(value: Given):  # type: ignore[no-untyped-def, valid-type]
        return rows(value)

    async def rows_async(value: Given):  # type: ignore[no-untyped-def, valid-type]
        for each in rows(value):
            yield each

    functions = {"async": rows_later, "thread": rows, "loop": rows, "async generator": rows_async}
    register(server, functions[way], way)
    async with connect(server) as client:
        assert (await client.call_tool("f")).structured_content == [True, way in ("loop", "async generator")]


@pytest.mark.parametrize("way", ["thread", "async generator"])
async def test_generator_may_ask(way: str, server: Server, revision: str) -> None:
    def lines(ctx: Context):  # type: ignore[no-untyped-def]
        yield "first"
        yield f"name: {ctx.sync.elicit('Your name?', str).value}"

    async def lines_later(ctx: Context):  # type: ignore[no-untyped-def]
        yield "first"
        yield f"name: {(await ctx.elicit('Your name?', str)).value}"

    register(server, lines if way == "thread" else lines_later, way)
    answer: Any = {"action": "accept", "content": {"value": "Ada"}}
    async with connect(server, protocol_version=revision, request_handler=lambda *_: answer) as client:
        assert (await client.call_tool("f")).text == '["first","name: Ada"]'


# Objects and files


@pytest.mark.parametrize("way", ["async", "thread", "loop"])
@each_row("make", [Shown, lambda: [Shown(), "text"], lambda: ToolResult([Shown()]), lambda: iter([Shown()])])
async def test_rendering_of_own_objects_runs_in_a_thread(way: str, make: Callable[[], Any]) -> None:
    async def asynchronous() -> Any:
        return make()

    server = Server("s")
    register(server, asynchronous if way == "async" else lambda: make(), way)
    async with connect(server) as client:
        assert (await client.call_tool("f")).content[0]["text"] == "shown in a thread"


async def test_file_of_a_coroutine_is_read_in_a_thread(server, tmp_path, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "a.png").write_bytes(PNG)
    places: list[bool] = []
    read = File._read

    def record_and_read(file: File) -> Any:
        data = read(file)
        places.append(in_loop())
        return data

    monkeypatch.setattr(File.__mro__[1], "_read", record_and_read)

    @server.tool
    async def both() -> Any:
        return [File(tmp_path / "a.txt"), Image(tmp_path / "a.png")]

    async with connect(server) as client:
        assert [block["type"] for block in (await client.call_tool("both")).content] == ["resource", "image"]
    assert places == [False] * 2


async def test_file_of_a_sampling_request_is_read_apart(server, revision, tmp_path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)

    @server.tool
    async def observe(ctx: Context) -> str:
        image = Image(tmp_path / "a.png")
        return (await ctx.sample([user(image), user(Shown())], max_tokens=10)).text

    def answer(method: str, params: Any) -> dict[str, Any]:
        image, shown = (message["content"] for message in params["messages"])
        assert image["type"] == "image"
        return {"role": "assistant", "model": "m", "content": shown}

    async with connect(server, protocol_version=revision, request_handler=answer) as client:
        assert (await client.call_tool("observe")).text == "shown in a thread"


async def test_figure_of_pyplot_is_closed(server: Server) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    @server.tool
    def draw() -> Any:
        return plt.subplots()[0]

    other = plt.figure()
    before = plt.get_fignums()
    try:
        async with connect(server) as client:
            assert (await client.call_tool("draw")).content[0]["type"] == "image"
        assert plt.get_fignums() == before
    finally:
        plt.close(other)


# Ends


async def test_slow_generator_ends_with_the_timeout(server: Server) -> None:
    gate, ended = threading.Event(), threading.Event()

    @server.tool(timeout=0.1)
    def slow() -> Any:
        def lines() -> Iterator[str]:
            try:
                while True:
                    yield "line"
                    gate.wait(30)
            finally:
                ended.set()

        return lines()

    async with connect(server) as client:
        assert (await client.call_tool("slow")).text == "timed out after 0.1 s"
        gate.set()
        await until(ended.is_set)  # the other lines are not made


@pytest.mark.parametrize("way", ["async", "thread", "loop"])
async def test_endless_iterator_is_error(way: str, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async def asynchronous() -> Any:
        return count()

    register(server, asynchronous if way == "async" else lambda: count(), way)
    async with connect(server) as client:
        assert (await client.call_tool("f")).is_error
    assert "more than 100,000 items, perhaps endless" in caplog.text


@pytest.mark.parametrize("end", ["time", "cancellation", "bound"])
async def test_async_generator_is_closed(end: str, server: Server, caplog: pytest.LogCaptureFixture) -> None:
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
        else:
            assert (await call).is_error
            expected = (await call).text if end == "time" else caplog.text
            assert ("timed out after 0.1 s" if end == "time" else "more than 100,000 items") in expected
        await asyncio.wait_for(closed.wait(), 30)
