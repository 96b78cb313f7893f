"""How long a call may take."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, RegistrationError, Server
from mcpkit.common.errors import INTERNAL_ERROR
from mcpkit.middleware import CallTool, ToolCall, ToolCallResult
from mcpkit.testing import connect
from tests.helpers.waiting import LoopClock, until

pytestmark = pytest.mark.anyio

SOON = 0.02


async def test_a_tool_whose_time_is_over_says_so() -> None:
    server = Server("s")

    @server.tool(timeout=SOON)
    async def wait() -> None:
        await asyncio.Event().wait()

    async with connect(server) as client:
        result = await client.call("wait")
    assert result.is_error
    assert result.text == "timed out after 0.02 s"


async def test_a_resource_and_a_prompt_whose_time_is_over_are_errors() -> None:
    server = Server("s")

    @server.resource("data://slow", timeout=SOON)
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    @server.prompt(timeout=SOON)
    async def ask() -> str:
        await asyncio.Event().wait()
        return ""

    async with connect(server) as client:
        for answer in (client.read("data://slow"), client.get_prompt("ask")):
            with pytest.raises(ProtocolError, match=r"timed out after 0\.02 s") as caught:
                await answer
            assert caught.value.code == INTERNAL_ERROR


async def test_a_call_in_time_is_answered_as_any_other() -> None:
    server = Server("s", timeout=100)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> None:
        raise KeyError("secret")

    @server.tool
    def leave() -> None:
        raise SystemExit(3)

    async with connect(server) as client:
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
        assert "Internal error" in (await client.call("fail")).text
        assert "Internal error" in (await client.call("leave")).text


async def test_the_time_of_a_component_goes_before_that_of_the_server() -> None:
    server = Server("s", timeout=SOON)

    @server.tool(timeout=None)
    async def patient(ctx: Context) -> float | None:
        return ctx.deadline

    @server.tool(timeout=500)
    async def slow(ctx: Context) -> bool:
        assert ctx.deadline is not None
        return ctx.deadline - time.monotonic() > 400

    @server.tool(concurrency=3)
    async def usual() -> None:
        await asyncio.Event().wait()

    async with connect(server) as client:
        assert (await client.call("patient")).text == "null"
        assert (await client.call("slow")).text == "true"
        assert (await client.call("usual")).text == "timed out after 0.02 s"


async def test_what_is_included_has_the_time_of_the_server_that_serves_it() -> None:
    part, whole = Server("part"), Server("whole", timeout=SOON)

    @part.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    whole.include(part, prefix="x")
    async with connect(whole) as client:
        name = (await client.list_tools())[0]["name"]
        assert (await client.call(name)).text == "timed out after 0.02 s"


@pytest.mark.slow
async def test_a_function_that_refuses_to_be_cancelled_holds_nobody(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    gate = asyncio.Event()
    seen: list[Any] = []

    @server.tool(timeout=SOON)
    async def stubborn(ctx: Context) -> str:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                seen.append(ctx.cancelled)
                gc.collect()
        try:
            await ctx.progress(1)
        except RuntimeError as error:
            seen.append("has ended" in str(error))
        raise ValueError("too late")

    async with connect(server) as client:
        assert (await client.call("stubborn")).text == "timed out after 0.02 s"
        await until(lambda: seen == [True])
        assert server.engine.runtime.running.taken == 1  # it counts, so that such functions are bounded
        gate.set()
        await until(lambda: server.engine.runtime.running.taken == 0)
    assert seen == [True, True]
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


async def test_a_function_may_clean_up_after_its_time() -> None:
    server = Server("s")
    cleaned = asyncio.Event()

    @server.tool(timeout=SOON)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    async with connect(server) as client:
        assert (await client.call("wait")).is_error
        await asyncio.wait_for(cleaned.wait(), 10)


async def test_a_cancelled_call_has_ended_when_its_function_has() -> None:
    server = Server("s", timeout=100)
    started, gate, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await gate.wait()
            cleaned.set()

    async with connect(server) as client:
        call = asyncio.create_task(client.call("wait"))
        await started.wait()
        asyncio.get_running_loop().call_later(SOON, gate.set)
    assert cleaned.is_set()  # the end of the connection waited for it
    assert server.engine.runtime.running.taken == 0
    with pytest.raises(ConnectionError):
        await call


async def test_a_function_in_a_thread_that_is_out_of_time_holds_nobody() -> None:
    server = Server("s")
    clock = LoopClock()
    started, gate, seen = threading.Event(), threading.Event(), []

    @server.tool(timeout=100)
    def block(ctx: Context) -> str:
        deadline = ctx.deadline
        started.set()
        gate.wait(10)
        seen.append((ctx.cancelled, deadline is not None and 0 < deadline - time.monotonic() <= 100))
        return "dropped"

    async with connect(server) as client:
        call = asyncio.create_task(client.call("block"))
        await asyncio.to_thread(started.wait, 10)
        clock.ahead += 100
        assert (await call).text == "timed out after 100 s"
        assert server.engine.runtime.threads.given_up == 1
        gate.set()
        await until(lambda: server.engine.runtime.threads.given_up == 0)
    assert seen == [(True, True)]


async def test_without_a_limit_there_is_no_deadline() -> None:
    server = Server("s")

    @server.tool
    async def look(ctx: Context) -> list[Any]:
        return [ctx.deadline, ctx.cancelled]

    async with connect(server) as client:
        assert (await client.call("look")).structured == [None, False]


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "5", True])
def test_a_timeout_is_a_positive_number_of_seconds(timeout: Any) -> None:
    server = Server("s")
    with pytest.raises(RegistrationError, match="tool 'f': timeout is a positive number of seconds"):

        @server.tool(timeout=timeout)
        def f() -> None: ...

    with pytest.raises(ValueError, match="timeout is a positive number of seconds"):
        Server("s", timeout=timeout)


async def test_what_a_middleware_tries_again_has_its_time_again() -> None:
    server = Server("s")
    told: list[bool] = []

    @server.tool(timeout=SOON)
    async def wait(ctx: Context) -> None:
        told.append(ctx.cancelled)
        await asyncio.Event().wait()

    @server.middleware("tools/call")
    async def twice(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        await call_next(request)
        return await call_next(request)

    async with connect(server) as client:
        assert (await client.call("wait")).text == "timed out after 0.02 s"
    assert told == [False, False]


async def test_a_function_that_goes_on_alone_still_has_its_deadline() -> None:
    server = Server("s")
    may_look = threading.Event()
    deadlines: list[float | None] = []
    has_looked = threading.Event()

    @server.tool(timeout=0.05)
    def work(ctx: Context) -> None:
        may_look.wait(10)
        deadlines.append(ctx.deadline)
        has_looked.set()

    async with connect(server) as client:
        assert (await client.call("work")).is_error
        may_look.set()
        assert await asyncio.to_thread(has_looked.wait, 10)
    assert deadlines[0] is not None
