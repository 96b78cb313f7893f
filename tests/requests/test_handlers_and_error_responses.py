"""Results are made where the function ran: what takes long is not made in the event loop, and ends with the call."""

import asyncio
import gc
import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import (
    Context,
    Depends,
    File,
    Image,
    PromptError,
    ProtocolError,
    Server,
    ToolError,
    ToolResult,
    user,
)
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.middleware import CallNext, Request, Result
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


# Exceptions of handlers: what clients read of them, through task groups and from each kind of function


# Without `from __future__ import annotations`: the annotations name what is local to a function.


INTERNAL = re.compile(r"Internal error \(ref ([0-9a-f]{8})\)")


def make_server(error: BaseException, **options: Any) -> Server:
    server = Server("s", **options)

    def fail() -> str:
        raise error

    server.tool(fail)
    server.resource("data://fail")(fail)
    server.prompt(fail)
    return server


async def read_errors(client: TestClient, name: str = "fail") -> list[str]:
    """Return the messages of a tool, a resource and a prompt that fail."""
    result = await client.call_tool(name)
    assert result.is_error
    texts = [result.text]
    for request in (client.read_resource(f"data://{name}"), client.get_prompt(name)):
        with pytest.raises(ProtocolError) as caught:
            await request
        texts.append(caught.value.message)
    return texts


async def test_unexpected_exception_is_masked_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = make_server(ConnectionError("postgres://admin:hunter2@10.0.0.7"))

    @server.middleware("tools/list")
    async def fail(request: Request, call_next: CallNext) -> Result:
        raise ValueError

    async with connect(server) as client:
        texts = await read_errors(client)
        with pytest.raises(ProtocolError):
            await client.list_tools()
    for text in texts:
        assert (found := INTERNAL.fullmatch(text))
        assert f"ref {found[1]}" in caplog.text
    assert "hunter2" in caplog.text
    assert [re.sub("ref .*", "ref", record.getMessage()) for record in caplog.records] == [
        "tools/call 'fail' failed (ref", "resources/read 'data://fail' failed (ref", "prompts/get 'fail' failed (ref",
        "tools/list failed (ref",
    ]  # fmt: skip


class UnreadableError(PromptError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@each_row(("error", "expected"), [
    (KeyError("a"), "KeyError: 'a'"), (ValueError(), "ValueError"),
    (ValueError("two\nlines"), "ValueError: two\nlines"), (ValueError("half \ud800"), "ValueError: half ?"),
])  # fmt: skip
async def test_mask_errors_false_shows_type_and_text(error, expected, caplog) -> None:
    async with connect(make_server(error, mask_error_details=False)) as client:
        for text in await read_errors(client):
            assert (found := re.fullmatch(r"(.*) \(ref ([0-9a-f]{8})\)", text, re.DOTALL)), text
            assert found[1] == expected
            assert f"ref {found[2]}" in caplog.text
    assert "Traceback" in caplog.text


async def test_mask_errors_false_of_error_without_text(caplog: pytest.LogCaptureFixture) -> None:
    logging.disable()
    try:
        async with connect(make_server(UnreadableError(), mask_error_details=False)) as client:
            text = (await client.call_tool("fail")).text
    finally:
        logging.disable(logging.NOTSET)
    assert "UnreadableError: <exception str() failed>" in text


@each_row(
    "error",
    [UnreadableError(), ResourceNotFoundError(3), ProtocolError(-1, "text", object())],  # type: ignore[arg-type]
)
async def test_error_that_cannot_be_sent_is_internal(error, caplog) -> None:
    async with connect(make_server(error)) as client:
        with pytest.raises(ProtocolError, match=r"Internal error \(ref ") as raised:
            await asyncio.wait_for(client.get_prompt("fail"), 10)
    assert raised.value.code == -32603
    assert "failed (ref" in caplog.text


@each_row("arguments", [("-1", "text"), (-1, ValueError("text")), (None, "text")])
def test_protocol_error_takes_a_number_and_a_text(arguments: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a code .* and a message .*, got "):
        ProtocolError(*arguments)


# Exception groups


def failing(error: BaseException) -> Callable[[], Awaitable[Any]]:
    async def fail() -> None:
        raise error

    return fail


async def run_nested(*works: Callable[[], Awaitable[Any]]) -> Any:
    """Run functions in a task group, each in one of its own, so that groups hold groups."""

    async def run(work: Callable[[], Awaitable[Any]]) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)

    async with anyio.create_task_group() as tasks:
        for work in works:
            tasks.start_soon(run, work)


async def test_exception_group_is_its_first_error(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    no_paper, no_ink = failing(ToolError("no paper left")), failing(ToolError("no ink left"))

    @server.tool
    async def several() -> None:
        await run_nested(no_paper, no_ink)

    server.tool(several, name="in_time", timeout=60)

    @server.tool
    async def error_and_question(ctx: Context) -> None:
        await run_nested(ctx.list_roots, no_paper)

    @server.tool
    async def unexpected() -> None:
        await run_nested(no_paper, failing(KeyError("secret")))

    @server.prompt
    async def greet() -> str:
        return str(await run_nested(failing(ProtocolError(-32099, "no guest"))))

    @server.resource("notes://{kind}")
    async def notes(kind: str) -> str:
        return str(await run_nested(failing(ResourceNotFoundError())))

    async with connect(server, protocol_version=revision, request_handler=lambda *_: {"roots": []}) as client:
        for name in ("several", "in_time", "error_and_question"):
            result = await client.call_tool(name)
            assert (result.is_error, result.text) == (True, "no paper left"), name
        with pytest.raises(ProtocolError, match="no guest") as caught:
            await client.get_prompt("greet")
        assert caught.value.code == -32099
        with pytest.raises(ProtocolError, match="Resource not found: notes://day"):
            await client.read_resource("notes://day")
        assert INTERNAL.fullmatch((await client.call_tool("unexpected")).text)
    assert "secret" in caplog.text


# Exceptions that end a process end the call alone


def kinds_of_functions(fail: Callable[[], Any]) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return functions of all kinds that call `fail`, with their options; those named `thread` do so in a thread."""

    def closed() -> Iterator[None]:
        yield
        fail()

    def synchronous() -> None:
        fail()

    def generator():  # type: ignore[no-untyped-def]
        yield 1
        fail()

    async def waiting() -> None:
        await asyncio.sleep(0)
        fail()

    async def async_generator():  # type: ignore[no-untyped-def]
        yield 1
        fail()

    def closes(value: Annotated[None, Depends(closed)]) -> str:
        return "done"

    def once(ctx: Context) -> None:
        ctx.sync.once("key", fail)

    return {
        "coroutine": (waiting, {}), "in_time": (waiting, {"timeout": 600}), "quick": (synchronous, {"run_in": "loop"}),
        "async_generator": (async_generator, {}), "thread": (synchronous, {}), "thread_generator": (generator, {}),
        "thread_closes": (closes, {}), "thread_once": (once, {}),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, KeyboardInterrupt])
async def test_exception_that_ends_a_process_ends_the_call(error: type[BaseException], revision: str) -> None:
    def fail() -> None:
        raise error

    server = Server("s")
    functions = kinds_of_functions(fail)
    if error is KeyboardInterrupt:
        functions = {kind: each for kind, each in functions.items() if kind.startswith("thread")}
    for name, (function, options) in functions.items():
        server.tool(name=name, **options)(function)
        server.resource(f"data://{name}", name=name, **options)(function)
        server.prompt(name=name, **options)(function)
    unretrieved: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
    async with connect(server, protocol_version=revision) as client:
        texts = {name: await read_errors(client, name) for name in functions}
        assert len(await client.list_tools()) == len(functions)
    gc.collect()
    assert {name: each for name, each in texts.items() if not all(map(INTERNAL.fullmatch, each))} == {}
    assert unretrieved == []
