"""While a question is open, a call's clock stands still and another call has its place."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import anyio
import pytest

from mcpkit import Context, Server
from mcpkit.calls.turn import Slots
from mcpkit.middleware import CallTool, ToolCall, ToolCallResult
from mcpkit.testing import connect
from tests.helpers.clock import Clock
from tests.helpers.pipe import settle
from tests.helpers.waiting import LoopClock, over, until

pytestmark = pytest.mark.anyio

SOON = 0.02


async def test_while_a_question_is_open_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("s")
    clock = Clock()
    monkeypatch.setattr("mcpkit.calls.turn.time", SimpleNamespace(monotonic=clock))

    @server.tool(timeout=100)
    async def ask(ctx: Context) -> list[float | None]:
        told = [ctx.deadline]
        clock.now += 1
        told.append(ctx.deadline)
        async with ctx.call.paused():
            told.append(ctx.deadline)
            clock.now += 10
            async with ctx.call.paused():
                clock.now += 10
            told.append(ctx.deadline)
        told.append(ctx.deadline)
        clock.now += 1
        told.append(ctx.deadline)
        return told

    async with connect(server) as client:
        assert (await client.call("ask")).structured == [1100, 1100, 1100, 1120, 1120, 1120]


async def test_after_a_question_the_clock_runs_on() -> None:
    server = Server("s")
    clock = LoopClock()
    asked, answer, went_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @server.tool(timeout=100)
    async def ask(ctx: Context) -> None:
        async with ctx.call.paused():
            asked.set()
            await answer.wait()
        went_on.set()
        await asyncio.Event().wait()

    async with connect(server) as client:
        call = asyncio.create_task(client.call("ask"))
        await asked.wait()
        clock.ahead += 1000
        await settle()
        assert not call.done()
        answer.set()
        await went_on.wait()
        clock.ahead += 100
        assert (await call).text == "timed out after 100 s"


async def test_while_a_question_is_open_another_call_has_the_place() -> None:
    server = Server("s")
    answer = asyncio.Event()
    events: list[str] = []

    @server.tool(concurrency=1)
    async def ask(name: str, is_question: bool, ctx: Context) -> None:
        events.append(f"{name} begins")
        if is_question:
            async with ctx.call.paused():
                await answer.wait()
            events.append(f"{name} goes on")
        else:
            answer.set()
            await settle()
        events.append(f"{name} ends")

    async with connect(server) as client:
        await asyncio.gather(
            client.call("ask", {"name": "a", "is_question": True}),
            client.call("ask", {"name": "b", "is_question": False}),
            client.call("ask", {"name": "c", "is_question": False}),
        )
    # Whoever had a place before goes first: c came earlier than the answer, but has had none.
    assert events == ["a begins", "b begins", "b ends", "a goes on", "a ends", "c begins", "c ends"]


async def test_a_question_that_is_given_up_gives_the_place_back_all_the_same() -> None:
    server = Server("s")

    @server.tool(concurrency=1)
    async def ask(ctx: Context) -> str:
        async def question() -> None:
            async with ctx.call.paused():
                await asyncio.Event().wait()

        try:
            await asyncio.wait_for(question(), SOON)
        except asyncio.TimeoutError:
            return "no answer"
        return "never"

    async with connect(server) as client:
        answers = await asyncio.gather(*(client.call("ask") for _ in range(3)))
        assert [answer.text for answer in answers] == ["no answer"] * 3
        call = asyncio.create_task(client.call("ask"))
        await until(lambda: server.engine.runtime.running.taken == 1)
        await over(call)
        assert (await client.call("ask")).text == "no answer"


async def test_without_limits_a_question_stops_nothing() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        async with ctx.call.paused():
            return "asked"

    async with connect(server) as client:
        assert (await client.call("ask")).text == "asked"


def slots_of(server: Server, name: str) -> Slots:
    limits = server.tools[name]._limits
    assert limits is not None
    assert limits.slots is not None
    return limits.slots


async def test_parts_of_a_function_that_go_on_after_questions_share_one_place() -> None:
    server = Server("s")
    asked, first, again, second = (asyncio.Event() for _ in range(4))

    @server.tool(concurrency=1)
    async def ask(ctx: Context) -> str:
        async def one() -> None:
            async with ctx.call.paused():
                asked.set()
                await first.wait()

        async def other() -> None:
            await again.wait()
            async with ctx.call.paused():
                await second.wait()

        await asyncio.gather(one(), other())
        return "done"

    slots = slots_of(server, "ask")
    async with connect(server) as client:
        call = asyncio.create_task(client.call("ask"))
        await asked.wait()
        await slots.take()  # as another call does
        for event in (first, again, second):
            event.set()
            await settle()
        assert not call.done()
        slots.give_back()
        assert (await asyncio.wait_for(call, 10)).text == "done"
    await asyncio.wait_for(slots.take(), 10)


async def test_questions_in_scopes_that_are_cancelled_get_their_places_back() -> None:
    server = Server("s")
    scopes: list[anyio.CancelScope] = []

    @server.tool(concurrency=1)
    async def ask(ctx: Context) -> str:
        with anyio.CancelScope() as scope:  # which cancels what is in it again and again
            scopes.append(scope)
            async with ctx.call.paused():
                await asyncio.Event().wait()
        return "done"

    slots = slots_of(server, "ask")
    async with connect(server) as client:
        calls = [asyncio.create_task(client.call("ask")) for _ in range(3)]
        await until(lambda: len(scopes) == 3)
        await slots.take()
        for scope in scopes:
            scope.cancel()
        await settle()
        slots.give_back()
        results = await asyncio.wait_for(asyncio.gather(*calls), 10)
        assert [result.text for result in results] == ["done", "done", "done"]
    await asyncio.wait_for(slots.take(), 10)


async def test_a_question_after_the_function_takes_no_place() -> None:
    server = Server("s")

    @server.tool(concurrency=1)
    async def work() -> str:
        return "done"

    @server.middleware("tools/call")
    async def ask_afterwards(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(request)
        async with request.ctx.call.paused():
            pass
        return result

    async with connect(server) as client:
        assert (await client.call("work")).text == "done"
        assert (await asyncio.wait_for(client.call("work"), 10)).text == "done"
