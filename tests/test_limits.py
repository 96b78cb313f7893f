"""How long a call may take, and how many calls run at a time."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, RegistrationError, Server
from mcpkit.errors import INTERNAL_ERROR
from mcpkit.running.limits import Slots
from mcpkit.testing import Client, connect

pytestmark = pytest.mark.anyio

SOON = 0.02


async def until(condition: Any) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def over(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.wait([task])


# Time


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
        assert server._running_count == 1  # it counts, so that such functions are bounded
        gate.set()
        await until(lambda: server._running_count == 0)
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
    assert server._running_count == 0
    with pytest.raises(ConnectionError):
        await call


async def test_a_function_in_a_thread_that_is_out_of_time_holds_nobody() -> None:
    server = Server("s")
    gate, seen = threading.Event(), []

    @server.tool(timeout=SOON)
    def block(ctx: Context) -> str:
        deadline = ctx.deadline
        gate.wait(10)
        seen.append((ctx.cancelled, deadline is not None and deadline < time.monotonic()))
        return "dropped"

    async with connect(server) as client:
        assert (await client.call("block")).text == "timed out after 0.02 s"
        assert server.threads.given_up == 1
        gate.set()
        await until(lambda: server.threads.given_up == 0)
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


# Places


class Visitors:
    """A tool whose calls wait until they are let go, one by one.

    Attributes:
        inside: The names of the calls that run, in order of arrival.
        most: How many ran at a time.
    """

    def __init__(self, server: Server, **options: Any) -> None:
        self.inside: list[str] = []
        self.most = 0
        self._gates: dict[str, asyncio.Event] = {}

        @server.tool(**options)
        async def visit(name: str) -> str:
            self._gates[name] = asyncio.Event()
            self.inside.append(name)
            self.most = max(self.most, len(self.inside))
            try:
                await self._gates[name].wait()
            finally:
                self.inside.remove(name)
            return name

    def come(self, client: Client, name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(client.call("visit", {"name": name}))

    def let_go(self, name: str) -> None:
        self._gates[name].set()


@pytest.mark.parametrize("timeout", [None, 100])
async def test_calls_beyond_the_number_wait_in_order_of_arrival(timeout: float | None) -> None:
    server = Server("s", timeout=timeout)
    visitors = Visitors(server, concurrency=1)
    async with connect(server) as client:
        calls = []
        for name in "abcd":
            calls.append(visitors.come(client, name))
            await asyncio.sleep(0)
        for name in "abcd":
            await until(lambda name=name: visitors.inside == [name])
            visitors.let_go(name)
        assert [(await call).text for call in calls] == list("abcd")
    assert visitors.most == 1


async def test_as_many_run_as_there_are_places() -> None:
    server = Server("s")
    visitors = Visitors(server, concurrency=2)
    async with connect(server) as client:
        calls = [visitors.come(client, name) for name in "abc"]
        await until(lambda: len(visitors.inside) == 2)
        for name in "abc":
            await until(lambda name=name: name in visitors.inside)
            visitors.let_go(name)
        await asyncio.gather(*calls)
    assert visitors.most == 2


async def test_a_copy_under_another_name_shares_the_places() -> None:
    part, whole = Server("part"), Server("whole")
    visitors = Visitors(part, concurrency=1)
    whole.include(part)
    whole.include(part, prefix="other")
    async with connect(whole) as client:
        names = [each["name"] for each in await client.list_tools()]
        first = asyncio.create_task(client.call(names[0], {"name": "a"}))
        await until(lambda: visitors.inside == ["a"])
        second = asyncio.create_task(client.call(names[1], {"name": "b"}))
        await asyncio.sleep(SOON)
        assert visitors.inside == ["a"]
        visitors.let_go("a")
        await until(lambda: visitors.inside == ["b"])
        visitors.let_go("b")
        await asyncio.gather(first, second)


async def test_a_call_that_waits_can_be_cancelled() -> None:
    server = Server("s")
    visitors = Visitors(server, concurrency=1)
    async with connect(server) as client:
        first = visitors.come(client, "a")
        await until(lambda: visitors.inside == ["a"])
        second, third = visitors.come(client, "b"), visitors.come(client, "c")
        await until(lambda: server._running_count == 3)
        await over(second)
        visitors.let_go("a")
        await until(lambda: visitors.inside == ["c"])
        visitors.let_go("c")
        await asyncio.gather(first, third)
        await until(lambda: server._running_count == 0)


async def test_the_time_of_a_call_that_waits_runs() -> None:
    server = Server("s")
    started, gate = asyncio.Event(), asyncio.Event()

    @server.tool(concurrency=1, timeout=SOON)
    async def stubborn() -> None:
        started.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    async with connect(server) as client:
        assert (await client.call("stubborn")).text == "timed out after 0.02 s"
        # Its function still runs, and so has its place.
        waiting = await client.call("stubborn")
        assert waiting.text == "timed out after 0.02 s of waiting for earlier calls to end"
        gate.set()
        await until(lambda: server._running_count == 0)
        assert not (await client.call("stubborn")).is_error


async def test_a_thread_that_was_given_up_keeps_its_place_until_it_returns() -> None:
    server = Server("s")
    started, gate = threading.Event(), threading.Event()

    @server.tool(concurrency=1)
    def block() -> str:
        started.set()
        gate.wait(10)
        return "done"

    async with connect(server) as client:
        first = asyncio.create_task(client.call("block"))
        await asyncio.to_thread(started.wait, 10)
        await over(first)
        started.clear()
        second = asyncio.create_task(client.call("block"))
        await until(lambda: server._running_count == 1)
        await asyncio.sleep(SOON)
        assert not started.is_set()
        gate.set()
        assert (await second).text == "done"


@pytest.mark.parametrize("number", [0, -1, 1.5, "1", True])
def test_the_number_of_places_is_at_least_one(number: Any) -> None:
    server = Server("s")
    with pytest.raises(RegistrationError, match="tool 'f': concurrency is the number of calls"):

        @server.tool(concurrency=number)
        def f() -> None: ...


async def test_a_place_that_was_handed_over_to_a_cancelled_call_goes_to_the_next() -> None:
    slots = Slots(1)
    await slots.take()
    second, third = asyncio.create_task(slots.take()), asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back()  # to the second, which hears of it in the next turn of the loop
    second.cancel()
    await asyncio.wait([second])
    await asyncio.wait_for(third, 10)


def test_places_are_shared_between_event_loops() -> None:
    slots = Slots(1)
    running, most = 0, 0
    lock = threading.Lock()

    async def work() -> None:
        nonlocal running, most
        for _ in range(50):
            await slots.take()
            with lock:
                running += 1
                most = max(most, running)
            await asyncio.sleep(0)
            with lock:
                running -= 1
            slots.give_back()

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert most == 1


def test_nobody_waits_in_a_loop_that_is_closed() -> None:
    slots = Slots(1)

    async def take_and_leave() -> None:
        await slots.take()
        loop.stop()
        await slots.take()

    loop = asyncio.new_event_loop()
    left = loop.create_task(take_and_leave())
    loop.run_forever()
    loop.close()
    slots.give_back()
    asyncio.run(asyncio.wait_for(slots.take(), 10))
    left._log_destroy_pending = False  # type: ignore[attr-defined]  # this is what the test is about


# Questions


async def test_while_a_question_is_open_the_clock_stands_still() -> None:
    server = Server("s")

    @server.tool(timeout=100)
    async def ask(ctx: Context) -> bool:
        running = ctx.deadline
        await asyncio.sleep(SOON)
        assert ctx.deadline == running
        async with ctx._paused():
            begun = ctx.deadline
            await asyncio.sleep(SOON)
            assert begun is not None
            assert ctx.deadline is not None
            assert ctx.deadline > begun
            async with ctx._paused():
                pass
            await asyncio.sleep(SOON)
        resumed = ctx.deadline
        assert running is not None
        assert resumed is not None
        assert resumed >= running + 2 * SOON
        await asyncio.sleep(SOON)
        return ctx.deadline == resumed

    async with connect(server) as client:
        assert (await client.call("ask")).text == "true"


async def test_after_a_question_the_clock_runs_on() -> None:
    server = Server("s")

    @server.tool(timeout=SOON)
    async def ask(ctx: Context) -> None:
        async with ctx._paused():
            await asyncio.sleep(2 * SOON)
        await asyncio.Event().wait()

    async with connect(server) as client:
        assert (await client.call("ask")).text == "timed out after 0.02 s"


async def test_while_a_question_is_open_another_call_has_the_place() -> None:
    server = Server("s")
    answer = asyncio.Event()
    events: list[str] = []

    @server.tool(concurrency=1)
    async def ask(name: str, is_question: bool, ctx: Context) -> None:
        events.append(f"{name} begins")
        if is_question:
            async with ctx._paused():
                await answer.wait()
            events.append(f"{name} goes on")
        else:
            answer.set()
            await asyncio.sleep(SOON)
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
            async with ctx._paused():
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
        await until(lambda: server._running_count == 1)
        await over(call)
        assert (await client.call("ask")).text == "no answer"


async def test_without_limits_a_question_stops_nothing() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        async with ctx._paused():
            return "asked"

    async with connect(server) as client:
        assert (await client.call("ask")).text == "asked"
