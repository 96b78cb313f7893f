"""Calls with hidden parameters: where what they depend on runs, when it is closed, and what it hears of the outcome."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Annotated, Any

import pytest

from mcpkit import Context, Depends, PromptError, ProtocolError, ResourceError, Server, ToolError
from mcpkit.testing import connect
from tests.helpers.traces import WAYS, Trace, register, traced

pytestmark = pytest.mark.anyio

variable = ContextVar("variable", default="nobody")


@pytest.fixture
def trace() -> Iterator[Trace]:
    with traced() as trace:
        yield trace


@pytest.fixture
def server() -> Server:
    return Server("s")


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


def yields_never() -> Iterator[str]:
    return
    yield ""


def yields_twice() -> Iterator[str]:
    yield "a"
    yield "b"


async def yields_never_in_loop() -> AsyncIterator[str]:
    return
    yield ""


async def yields_twice_in_loop() -> AsyncIterator[str]:
    yield "a"
    yield "b"


async def yields_again_after_an_error() -> AsyncIterator[str]:
    try:
        yield "a"
    except ToolError:
        yield "b"


ONCE = "what a function depends on yields its value, and that once"


@pytest.mark.parametrize("is_handler_async", [True, False])
@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (yields_never, "yields_never has not yielded"),
        (yields_twice, "yields_twice has yielded more than once"),
        (yields_never_in_loop, "yields_never_in_loop has not yielded"),
        (yields_twice_in_loop, "yields_twice_in_loop has yielded more than once"),
        (yields_again_after_an_error, "yields_again_after_an_error has yielded more than once"),
    ],
)
async def test_a_generator_that_does_not_yield_once_is_named(
    function: Any, fault: str, is_handler_async: bool, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    if is_handler_async:

        @server.tool
        async def look(value: Annotated[str, Depends(function)]) -> None:
            if "error" in function.__name__:
                raise ToolError("no such thing")

    else:

        @server.tool(name="look")
        def look_in_thread(value: Annotated[str, Depends(function)]) -> None:
            if "error" in function.__name__:
                raise ToolError("no such thing")

    async with connect(server) as client:
        result = await client.call("look")
    assert result.text.startswith("Internal error (ref ")
    assert f"RuntimeError: {fault}: {ONCE}" in caplog.text


async def test_an_error_of_a_generator_that_sounds_alike_keeps_its_words(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def nested() -> Iterator[str]:
        raise RuntimeError("generator didn't care")
        yield ""

    @server.tool
    async def look(value: Annotated[str, Depends(nested)]) -> None: ...

    async with connect(server) as client:
        await client.call("look")
    assert "RuntimeError: generator didn't care" in caplog.text
