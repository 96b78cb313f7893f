"""Exceptions of handlers: what clients read of them, through task groups and from each kind of function."""

# Without `from __future__ import annotations`: the annotations name what is local to a function.
import asyncio
import gc
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import Context, Depends, PromptError, ProtocolError, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

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
