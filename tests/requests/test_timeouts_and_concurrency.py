"""Limits of a call: its timeout, cancellation, calls of a component at a time, and all while a question is open."""

import asyncio
import gc
import logging
import threading
import time
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, RegistrationError, Server, ToolError
from mcpkit._utils.concurrency import run_shielded
from mcpkit._utils.exceptions import INTERNAL_ERROR, BusyError
from mcpkit.protocol.http_headers import caller_at
from mcpkit.requests.request_record import Call, call_of
from mcpkit.requests.timeouts_and_concurrency import Anonymous, Shares, Slots
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import settle
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock, over, until

SOON = 0.1
TIMED_OUT = "timed out after 0.1 s"


@pytest.fixture
def server() -> Server:
    return Server("s")


async def wait_forever() -> str:
    await asyncio.Event().wait()
    return ""


def running(server: Server) -> int:
    return server.engine.runtime.running.taken


# Timeouts


async def test_timeout_is_an_error_of_tools_resources_and_prompts() -> None:
    part, server = Server("part"), Server("s", timeouts=SOON)
    server.tool(wait_forever, max_concurrency=3)
    server.resource("data://slow")(wait_forever)
    server.prompt(wait_forever)
    part.tool(wait_forever)
    server.include(part, prefix="part")
    async with connect(server) as client:
        for name in ("wait_forever", "part_wait_forever"):
            result = await client.call_tool(name)
            assert (result.is_error, result.text) == (True, TIMED_OUT)
        for answer in (client.read_resource("data://slow"), client.get_prompt("wait_forever")):
            with pytest.raises(ProtocolError, match=r"timed out after 0\.1 s") as caught:
                await answer
            assert caught.value.code == INTERNAL_ERROR


@each_row(("register", "values", "message"), [
    (lambda value: Server("s").tool(wait_forever, timeout=value), (0, -1, float("inf"), float("nan"), "5", True),
     "tool 'wait_forever': timeout must be a positive number of seconds"),
    (lambda value: Server("s", timeouts=value), (0, -1, float("inf"), float("nan"), "5", True),
     "must be a number of seconds above 0"),
    (lambda value: Server("s").tool(wait_forever, max_concurrency=value), (0, -1, 1.5, "1", True),
     "tool 'wait_forever': max_concurrency must be an integer"),
])  # fmt: skip
def test_limit_that_is_no_positive_number_is_refused(register: Any, values: Any, message: str) -> None:
    for value in values:
        with pytest.raises((RegistrationError, TypeError, ValueError), match=message):
            register(value)


async def test_timeout_responds_though_the_function_suppresses_cancellation(server, caplog) -> None:
    gate, cancelled, late = asyncio.Event(), [], []

    @server.tool(timeout=SOON, max_concurrency=1)
    async def stubborn(ctx: Context) -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                cancelled.append(ctx.cancelled)
                gc.collect()
        try:
            await ctx.report_progress(1)
        except RuntimeError as error:
            late.append(str(error))
        raise ValueError("too late")

    async with connect(server) as client:
        assert (await client.call_tool("stubborn")).text == TIMED_OUT
        await until(lambda: cancelled)
        assert running(server) == 1  # it counts, so that such functions are bounded
        assert (await client.call_tool("stubborn")).text == f"{TIMED_OUT} while it waited for earlier calls"
        gate.set()
        await until(lambda: running(server) == 0)
    assert (cancelled, ["has ended" in each for each in late]) == ([True], [True])
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


async def test_timeout_of_a_thread_responds_and_its_slot_is_free_when_it_returns(server: Server) -> None:
    clock, threads = LoopClock(), server.engine.runtime.threads
    gate, seen = threading.Event(), []

    @server.tool(timeout=100, max_concurrency=1)
    def block(ctx: Context) -> str:
        seen.append(None)
        gate.wait(30)
        left = (ctx.deadline or 0) - time.monotonic()
        seen.append((ctx.cancelled, 0 < left <= 100))
        return "done"

    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("block"))
        await until(lambda: seen)
        clock.ahead += 100
        assert (await call).text == "timed out after 100 s"
        assert threads.abandoned == 1
        second = asyncio.create_task(client.call_tool("block"))
        await until(lambda: running(server) == 1)
        await settle()
        assert seen == [None]
        gate.set()
        assert (await second).text == "done"
        await until(lambda: threads.abandoned == 0)
    assert seen[1] == (True, True)


# Concurrency


class Gates:
    """A tool of which each call waits until the test opens its gate.

    Attributes:
        inside: The names of the calls that run, in order of arrival.
    """

    def __init__(self, server: Server, **options: Any) -> None:
        self.inside: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}
        server.tool(self.work, **options)

    async def work(self, name: str) -> str:
        self._gates[name] = asyncio.Event()
        self.inside.append(name)
        try:
            await self._gates[name].wait()
        finally:
            self.inside.remove(name)
        return name

    def call(self, client: TestClient, name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(client.call_tool("work", {"name": name}))

    async def open(self, name: str) -> None:
        await until(lambda: name in self.inside)
        self._gates[name].set()


@pytest.mark.parametrize(("concurrency", "timeout"), [(1, None), (1, 100), (2, None)])
async def test_concurrency_lets_calls_wait_in_order(concurrency: int, timeout: float | None) -> None:
    server = Server("s", timeouts=timeout)
    gates = Gates(server, max_concurrency=concurrency)
    async with connect(server) as client:
        calls = []
        for name in "abcd":
            calls.append(gates.call(client, name))
            await asyncio.sleep(0)
        for index, name in enumerate("abcd"):
            await until(lambda index=index: gates.inside == list("abcd"[index : index + concurrency]))
            await gates.open(name)
        assert [(await call).text for call in calls] == list("abcd")


async def test_concurrency_place_of_a_cancelled_call_goes_to_the_next(server: Server) -> None:
    gates = Gates(server, max_concurrency=1)
    async with connect(server) as client:
        first = gates.call(client, "a")
        await until(lambda: gates.inside == ["a"])
        second, third = gates.call(client, "b"), gates.call(client, "c")
        await until(lambda: running(server) == 3)
        await over(second)
        await gates.open("a")
        await gates.open("c")
        await asyncio.gather(first, third)
        await until(lambda: running(server) == 0)
    slots = Slots(1)
    await slots.acquire()
    waiting, last = asyncio.create_task(slots.acquire()), asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    slots.release()  # to `waiting`, which runs in the next turn of the loop
    await over(waiting)
    await asyncio.wait_for(last, 10)


# While a question is open


async def test_timeout_is_paused_by_a_question(server: Server) -> None:
    clock = LoopClock()
    asked, answer, resumed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @server.tool(timeout=100)
    async def ask(ctx: Context) -> None:
        async with call_of(ctx).paused():
            asked.set()
            await answer.wait()
        resumed.set()
        await asyncio.Event().wait()

    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("ask"))
        await asked.wait()
        clock.ahead += 1000
        await settle()
        assert not call.done()
        answer.set()
        await resumed.wait()
        clock.ahead += 100
        assert (await call).text == "timed out after 100 s"


async def test_place_is_free_during_a_question_and_returns_before_later_calls(server: Server) -> None:
    answer = asyncio.Event()
    events: list[str] = []

    @server.tool(max_concurrency=1)
    async def ask(name: str, is_question: bool, ctx: Context) -> None:
        events.append(f"{name} begins")
        if is_question:
            async with call_of(ctx).paused():
                await answer.wait()
            events.append(f"{name} goes on")
        else:
            answer.set()
            await settle()
        events.append(f"{name} ends")

    async with connect(server) as client:
        await asyncio.gather(
            *(client.call_tool("ask", {"name": each, "is_question": each == "a"}) for each in ("a", "b", "c"))
        )
    # A call that had a place before goes first: c came earlier than the answer, but has had none.
    assert events == ["a begins", "b begins", "b ends", "a goes on", "a ends", "c begins", "c ends"]


async def test_to_the_end_error_after_cancellation_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    go_on = asyncio.Event()

    async def fail() -> None:
        await go_on.wait()
        raise OSError("the store does not answer")

    waiting = asyncio.ensure_future(run_shielded(fail()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await until(lambda: "the store does not answer" in caplog.text)


# Shares of callers


def test_shares_may_yield_by_caller() -> None:
    shares = Shares()
    one, two, three = (Anonymous(name) for name in ("one", "two", "three"))
    assert shares.may_yield(8, one, "ada")
    shares.take(one, 2)
    assert [shares.may_yield(8, one, holder) for holder in (one, two, "ada", None)] == [True, *[False] * 3]
    shares.take(two, 2)
    assert [shares.may_yield(8, three, holder) for holder in (one, two, "ada")] == [True, True, False]
    assert shares.may_yield(8, "ada", one)
    text = shares.excess(8, three)
    assert text.startswith("(4 from clients without a token; one client has at most as many of 8")


def test_shares_error_has_the_reason() -> None:
    shares = Shares()
    shares.take("principal 'eve'", 2)
    share = "2 from principal 'eve'; one client has at most as many of 4 as are left for others"
    for caller, reason in (("principal 'eve'", share), ("principal 'ada'", "4")):
        with pytest.raises(BusyError) as caught:
            shares.check(4, caller, "requests are running")
        assert caught.value.message == f"Too many requests are running ({reason}). Try again in 1 s"
        shares.take(None, 2)
    for caller in ["principal 'eve'"] * 2 + [None] * 4:
        shares.release(caller)
    assert (shares.taken, shares._taken_by) == (0, {})  # nothing is kept of clients that have gone


@each_row(("host", "caller"), [
    ("203.0.113.7", "address 203.0.113.7"), ("::ffff:203.0.113.7", "address 203.0.113.7"),
    ("2001:db8:1:2::7", "address 2001:db8:1:2::/64"), ("fe80::1%eth0", "address fe80::/64"),
    ("no:address", "address no:address"), ("203.0.113.7:50123", "address 203.0.113.7"),
    ("[2001:db8:1:2::7]:50123", "address 2001:db8:1:2::/64"), ("127.0.0.1:50123", None), ("127.0.0.1", None),
    ("", None), ("::1", None),
])  # fmt: skip
def test_caller_at_groups_addresses(host: str, caller: str | None) -> None:
    assert caller_at(host) == caller


# Running requests: what remains of them


async def returns() -> str:
    return "done"


async def waits() -> str:
    await asyncio.sleep(0)
    return "done"


def runs_in_a_thread() -> str:
    return "done"


async def fails() -> None:
    raise ToolError("failed")


def living_calls() -> list[Call]:
    return [each for each in gc.get_objects() if type(each) is Call]


@each_row("tool", [returns, waits, runs_in_a_thread, fails])
async def test_answered_call_is_freed_without_garbage_collection(tool) -> None:
    server = Server("s")
    server.tool(tool, name="tool")
    async with connect(server) as client:
        await client.call_tool("tool")
        gc.collect()
        before = living_calls()  # other tests may have left some
        gc.disable()
        try:
            await client.call_tool("tool")
            # A worker thread releases its call shortly after the response.
            await until(lambda: all(each in before for each in living_calls()))
        finally:
            gc.enable()
