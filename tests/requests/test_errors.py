"""Exceptions of handlers: what clients read of them, through task groups and from each kind of function."""

# Without `from __future__ import annotations`: the annotations name what is local to a function.
import asyncio
import gc
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import Context, Depends, PromptError, ProtocolError, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


def make_server(error: BaseException, **options: Any) -> Server:
    server = Server("s", **options)

    def fail() -> str:
        raise error

    server.tool(fail)
    server.resource("a://b")(fail)
    server.prompt(fail)
    return server


async def read_errors(server: Server) -> list[str]:
    """Return the messages of a tool, a resource and a prompt that fail."""
    async with connect(server) as client:
        result = await client.call_tool("fail")
        assert result.is_error
        texts = [result.text]
        for request in (client.read_resource("a://b"), client.get_prompt("fail")):
            with pytest.raises(ProtocolError) as caught:
                await request
            texts.append(caught.value.message)
    return texts


async def test_unexpected_exception_is_masked_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = make_server(ConnectionError("postgres://admin:hunter2@10.0.0.7"))

    @server.middleware("tools/list")
    async def fail(request: Request, call_next: CallNext) -> Result:
        raise ValueError

    for text in await read_errors(server):
        assert (ref := re.fullmatch(r"Internal error \(ref ([0-9a-f]{8})\)", text))
        assert f"ref {ref[1]}" in caplog.text
    assert "hunter2" in caplog.text
    async with connect(server) as client:
        with pytest.raises(ProtocolError):
            await client.list_tools()
    assert [re.sub("ref .*", "ref", record.getMessage()) for record in caplog.records] == [
        "tools/call 'fail' failed (ref",
        "resources/read 'a://b' failed (ref",
        "prompts/get 'fail' failed (ref",
        "tools/list failed (ref",
    ]


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_mask_errors_false_shows_type_and_text(caplog: pytest.LogCaptureFixture) -> None:
    for error, expected in {
        KeyError("a"): "KeyError: 'a'",
        ValueError(): "ValueError",
        ValueError("two\nlines"): "ValueError: two\nlines",
        ValueError("half \ud800"): "ValueError: half ?",
    }.items():
        for text in await read_errors(make_server(error, mask_error_details=False)):
            assert (found := re.fullmatch(r"(.*) \(ref ([0-9a-f]{8})\)", text, re.DOTALL)), text
            assert found[1] == expected
            assert f"ref {found[2]}" in caplog.text
    assert "Traceback" in caplog.text
    logging.disable()
    try:
        text = (await read_errors(make_server(UnreadableError(), mask_error_details=False)))[0]
    finally:
        logging.disable(logging.NOTSET)
    assert "UnreadableError: <exception str() failed>" in text
    server = make_server(ToolError("There is no such city."), mask_error_details=False)
    for server in (server, make_server(ToolError("There is no such city."))):
        assert (await read_errors(server))[0] == "There is no such city."


class UnreadablePromptError(PromptError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [UnreadablePromptError(), ResourceNotFoundError(3), ProtocolError(-1, "text", object())],  # type: ignore[arg-type]
)
async def test_error_that_cannot_be_sent_is_an_internal_error(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(make_server(error)) as client:
        with pytest.raises(ProtocolError, match=r"Internal error \(ref ") as raised:
            await asyncio.wait_for(client.get_prompt("fail"), 10)
    assert raised.value.code == -32603
    assert "failed (ref" in caplog.text


def test_protocol_error_takes_a_number_and_a_text() -> None:
    for arguments in (("-1", "text"), (-1, ValueError("text")), (None, "text")):
        with pytest.raises(TypeError, match=r"takes a code .* and a message .*, got "):
            ProtocolError(*arguments)  # type: ignore[arg-type]


# Exception groups

Work = Callable[[], Awaitable[Any]]


async def run_nested(*works: Work) -> None:
    """Run functions in a task group, each in one of its own, so that groups hold groups."""

    async def run(work: Work) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)

    async with anyio.create_task_group() as tasks:
        for work in works:
            tasks.start_soon(run, work)


def failing(error: BaseException) -> Work:
    async def fail() -> None:
        raise error

    return fail


@REVISIONS
async def test_exception_group_is_reported_as_its_first_error(revision: str) -> None:
    server = Server("s")
    no_paper, no_ink = failing(ToolError("no paper left")), failing(ToolError("no ink left"))

    @server.tool
    async def several() -> None:
        await run_nested(no_paper, no_ink)

    @server.tool(timeout=60)
    async def in_time() -> None:
        await run_nested(no_paper, no_ink)

    @server.tool
    async def error_and_question(ctx: Context) -> None:
        await run_nested(ctx.list_roots, no_paper)

    @server.prompt
    async def greet() -> str:
        await run_nested(failing(ProtocolError(-32099, "nobody is there")))
        return ""

    @server.resource("notes://{kind}")
    async def notes(kind: str) -> str:
        await run_nested(failing(ResourceNotFoundError()))
        return ""

    async with connect(server, protocol_version=revision, request_handler=lambda *_: {"roots": []}) as client:
        for name in ("several", "in_time", "error_and_question"):
            result = await client.call_tool(name)
            assert (result.is_error, result.text) == (True, "no paper left"), name
        with pytest.raises(ProtocolError, match="nobody is there") as caught:
            await client.get_prompt("greet")
        assert caught.value.code == -32099
        with pytest.raises(ProtocolError, match="Resource not found: notes://day"):
            await client.read_resource("notes://day")


async def test_exception_group_with_an_unexpected_error_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def work() -> None:
        await run_nested(failing(ToolError("no paper left")), failing(KeyError("secret")))

    async with connect(server) as client:
        assert (await client.call_tool("work")).text.startswith("Internal error (ref ")
    assert "secret" in caplog.text


# Exceptions that end a process end the call alone


def kinds_of_functions(fail: Callable[[], Any]) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return functions of all kinds that call `fail`, with their options; those named `thread` do so in a thread."""

    async def opened_async() -> AsyncIterator[None]:
        fail()
        yield

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

    def opens_async(value: Annotated[None, Depends(opened_async)]) -> None: ...

    def closes(value: Annotated[None, Depends(closed)]) -> str:
        return "done"

    def once(ctx: Context) -> None:
        ctx.sync.once("key", fail)

    return {
        "coroutine": (waiting, {}),
        "in time": (waiting, {"timeout": 600}),
        "quick": (synchronous, {"run_in": "loop"}),
        "async generator": (async_generator, {}),
        "opens async": (opens_async, {}),
        "thread": (synchronous, {}),
        "thread generator": (generator, {}),
        "thread closes": (closes, {}),
        "thread once": (once, {}),
    }


@pytest.mark.slow
@REVISIONS
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, KeyboardInterrupt])
async def test_exception_that_ends_a_process_ends_the_call_alone(
    error: type[BaseException], revision: str
) -> None:
    def fail() -> None:
        raise error

    server = Server("s")
    names = []
    for kind, (function, options) in kinds_of_functions(fail).items():
        if error is KeyboardInterrupt and not kind.startswith("thread"):
            continue
        names.append(name := kind.replace(" ", "_"))
        server.tool(name=name, **options)(function)
        server.resource(f"data://{name}", name=name, **options)(function)
        server.prompt(name=name, **options)(function)
    unretrieved: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
    faults = []
    async with connect(server, protocol_version=revision) as client:
        for name in names:
            texts = [(await client.call_tool(name)).text]
            for request in (client.read_resource(f"data://{name}"), client.get_prompt(name)):
                try:
                    texts.append(repr(await request))
                except ProtocolError as caught:
                    texts.append(f"{caught.message} {caught.code}")
            expected = [r"Internal error \(ref \w+\)", *[r"Internal error \(ref \w+\) -32603"] * 2]
            if not all(re.fullmatch(*each) for each in zip(expected, texts, strict=True)):
                faults.append((name, texts))
        assert len(await client.list_tools()) == len(names)
    gc.collect()
    assert not faults
    assert unretrieved == []
