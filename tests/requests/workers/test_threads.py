"""Functions in worker threads: how many, with which context, and what becomes of what they raise."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import weakref
from functools import partial
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, RegistrationError, Server
from mcpkit.calls.workers.threads import Threads
from mcpkit.common.errors import BusyError
from mcpkit.testing import connect
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_function_runs_in_a_daemon_thread_with_the_callers_context() -> None:
    variable = contextvars.ContextVar("variable", default="nobody")

    def look(x: int) -> tuple[bool, bool, str, int]:
        thread = threading.current_thread()
        return thread is threading.main_thread(), thread.daemon, variable.get(), x

    variable.set("the caller")
    assert await Threads(1).run(look, {"x": 3}) == (False, True, "the caller", 3)


async def test_functions_run_at_once_up_to_the_limit() -> None:
    threads = Threads(3)
    barrier = threading.Barrier(3, timeout=10)
    await asyncio.gather(*(threads.run(barrier.wait, {}) for _ in range(3)))


async def test_there_are_never_more_threads_than_the_limit() -> None:
    threads = Threads(2)

    def ident() -> int:
        return threading.get_ident()

    idents = await asyncio.gather(*(threads.run(ident, {}) for _ in range(50)))
    assert len(set(idents)) <= 2


@pytest.mark.parametrize("limit", [0, -1])
def test_there_must_be_a_thread(limit: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        Threads(limit)
    with pytest.raises(ValueError, match="threads"):
        Server("s", threads=limit)


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyError("x")])
async def test_what_a_function_raises_is_raised_at_the_caller(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await Threads(1).run(fail, {})
    assert caught.value is error


async def test_stop_iteration_is_raised_as_a_runtime_error() -> None:
    def fail() -> None:
        next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await Threads(1).run(fail, {})


class Blocked:
    """A function that blocks its thread until the test lets it go.

    Attributes:
        threads: The threads that have run it, in order.
        error: What it raises then.
    """

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.error: BaseException | None = None
        self._started = threading.Semaphore(0)
        self._gate = threading.Event()

    def __call__(self) -> str:
        self.threads.append(threading.current_thread())
        self._started.release()
        self._gate.wait(10)
        if self.error is not None:
            raise self.error
        return "dropped"

    async def give_up_in(self, threads: Threads) -> None:
        """Have it called, and cancel the caller when it runs."""
        task = asyncio.create_task(threads.run(self, {}))
        assert await asyncio.to_thread(self._started.acquire, timeout=10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def let_go(self, threads: Threads) -> None:
        """Let all that are blocked return, and wait until they have."""
        self._gate.set()
        await until(lambda: not threads.given_up)


async def test_a_cancelled_caller_is_free_and_its_thread_has_no_place_any_more() -> None:
    threads, blocked = Threads(1), Blocked()
    await blocked.give_up_in(threads)
    assert threads.given_up == 1
    assert await threads.run(threading.current_thread, {}) is not blocked.threads[0]
    await blocked.let_go(threads)


async def test_a_call_that_waited_for_a_place_has_that_of_a_thread_that_is_given_up() -> None:
    threads, blocked = Threads(1), Blocked()
    giving_up = asyncio.create_task(blocked.give_up_in(threads))
    await until(lambda: blocked.threads)
    assert await asyncio.wait_for(threads.run(lambda: "served", {}), 10) == "served"
    await giving_up
    await blocked.let_go(threads)


async def test_a_thread_that_was_given_up_ends_where_another_has_its_place() -> None:
    threads, blocked = Threads(1), Blocked()
    await blocked.give_up_in(threads)
    other = await threads.run(threading.current_thread, {})
    await blocked.let_go(threads)
    await asyncio.to_thread(blocked.threads[0].join, 10)
    assert not blocked.threads[0].is_alive()
    assert await threads.run(threading.current_thread, {}) is other


async def test_a_thread_that_was_given_up_works_again_where_there_is_a_place() -> None:
    threads, blocked = Threads(1), Blocked()
    await blocked.give_up_in(threads)
    await blocked.let_go(threads)
    assert await threads.run(threading.current_thread, {}) is blocked.threads[0]


async def test_too_many_stuck_threads_refuse_new_calls_until_some_return() -> None:
    threads, blocked = Threads(1, stuck=1), Blocked()
    await blocked.give_up_in(threads)
    assert await threads.run(lambda: "served", {}) == "served"
    await blocked.give_up_in(threads)
    with pytest.raises(BusyError, match=r"stuck .* \(2; stuck_threads=1\)"):
        await threads.run(lambda: "refused", {})
    await blocked.let_go(threads)
    assert await threads.run(lambda: "served", {}) == "served"


@pytest.mark.parametrize("stuck", [-1, -7])
def test_there_cannot_be_less_than_no_stuck_thread(stuck: int) -> None:
    with pytest.raises(ValueError, match="stuck_threads must be at least 0"):
        Server("s", stuck_threads=stuck)


async def test_a_call_that_is_refused_for_stuck_threads_is_told_why() -> None:
    server, blocked = Server("s", stuck_threads=0), Blocked()

    @server.tool
    def work() -> None: ...

    @server.tool
    async def other() -> str:
        return "served"

    await blocked.give_up_in(server.engine.runtime.threads)
    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="Too many worker threads are stuck"):
            await client.call("work")
        assert (await client.call("other")).text == "served"
    await blocked.let_go(server.engine.runtime.threads)


async def test_what_a_thread_raises_after_its_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    threads, blocked = Threads(1), Blocked()
    blocked.error = KeyError("late")
    await blocked.give_up_in(threads)
    await blocked.let_go(threads)
    await until(lambda: caplog.records)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert record.exc_info[1] is blocked.error


async def test_a_thread_that_was_given_up_can_say_nothing_more() -> None:
    server = Server("s")
    started, gate, seen = threading.Event(), threading.Event(), []

    @server.tool
    def work(ctx: Context) -> None:
        started.set()
        gate.wait(10)
        for attempt in (lambda: ctx.sync.progress(1), lambda: ctx.sync.info("x")):
            try:
                attempt()
            except RuntimeError as error:
                seen.append("has ended" in str(error))

    async with connect(server) as client:
        call = asyncio.create_task(client.call("work"))
        await asyncio.to_thread(started.wait, 10)
        call.cancel()
        await asyncio.wait([call])
        gate.set()
        await until(lambda: len(seen) == 2)
    assert seen == [True, True]


async def test_a_thread_that_waits_for_the_event_loop_is_let_go_when_it_is_given_up() -> None:
    server = Server("s")
    asked, seen = asyncio.Event(), []

    @server.tool
    def work(ctx: Context) -> None:
        async def never() -> None:
            asked.set()
            await asyncio.Event().wait()

        try:
            ctx.sync._run(never())
        except RuntimeError as error:
            seen.append("has ended" in str(error))

    async with connect(server) as client:
        call = asyncio.create_task(client.call("work"))
        await asked.wait()
        call.cancel()
        await asyncio.wait([call])
        await until(lambda: seen)
    assert seen == [True]


async def test_a_quick_function_may_run_in_the_event_loop() -> None:
    server = Server("s")

    @server.tool(thread=False)
    def where(ctx: Context) -> list[bool]:
        return [threading.current_thread() is threading.main_thread(), ctx.cancelled]

    async with connect(server) as client:
        assert (await client.call("where")).structured == [True, False]


async def test_a_thread_that_is_asked_for_is_what_there_is_anyway() -> None:
    server = Server("s")

    @server.tool(thread=True)
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    async with connect(server) as client:
        assert (await client.call("where")).structured is False


class Asynchronous:
    async def __call__(self) -> None: ...

    async def method(self) -> None: ...


async def asynchronous() -> None: ...


@pytest.mark.parametrize(
    "function", [asynchronous, partial(asynchronous), Asynchronous(), Asynchronous().method]
)
def test_an_async_function_is_not_for_threads(function: Any) -> None:
    with pytest.raises(RegistrationError, match=r"runs in the event loop; remove thread=True"):
        Server("s").tool(name="f", thread=True)(function)


def test_thread_is_true_or_false() -> None:
    with pytest.raises(RegistrationError, match="thread is True or False, got 3"):
        Server("s").tool(name="f", thread=3)(print)


async def test_a_function_cancelled_before_its_turn_never_runs() -> None:
    threads = Threads(1)
    gate = threading.Event()
    ran = []
    first = asyncio.ensure_future(threads.run(gate.wait, {"timeout": 10}))
    second = asyncio.ensure_future(threads.run(lambda: ran.append(True), {}))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    gate.set()
    await first
    await threads.run(int, {})
    assert ran == []


@pytest.mark.slow
async def test_what_a_call_held_is_let_go_of_after_it() -> None:
    class Big:
        pass

    threads = Threads(1)
    value = Big()
    seen = weakref.ref(value)
    await threads.run(lambda x: None, {"x": value})
    del value
    await threads.run(int, {})
    gc.collect()
    assert seen() is None


def test_a_thread_that_outlives_its_loop_does_no_harm() -> None:
    threads = Threads(1)
    started, gate = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        gate.wait(10)

    async def leave() -> None:
        task = asyncio.ensure_future(threads.run(block, {}))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()

    asyncio.run(leave())
    gate.set()

    async def again() -> str:
        return await threads.run(lambda: "served", {})

    assert asyncio.run(again()) == "served"


async def test_the_number_of_threads_is_the_servers() -> None:
    server = Server("s", threads=1)
    running, most = 0, 0
    lock = threading.Lock()

    @server.tool
    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1

    async with connect(server) as client:
        await asyncio.gather(*(client.call("work") for _ in range(20)))
    assert most == 1


async def test_a_function_that_returns_an_awaitable_is_awaited_in_the_loop() -> None:
    server = Server("s")

    async def later() -> bool:
        return threading.current_thread() is threading.main_thread()

    @server.tool
    def work():  # type: ignore[no-untyped-def]  # so that its result is seen at the call only
        return later()

    async with connect(server) as client:
        assert (await client.call("work")).text == "true"


@pytest.mark.slow
async def test_a_call_that_was_cancelled_in_the_queue_holds_nothing() -> None:
    class Argument:
        pass

    threads = Threads(1)
    gate, started = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        gate.wait(10)

    def take(argument: Argument) -> None:
        raise AssertionError("nobody waits for it")

    blocking = asyncio.create_task(threads.run(block, {}))
    await asyncio.to_thread(started.wait, 10)
    argument = Argument()
    held = weakref.ref(argument)
    queued = asyncio.create_task(threads.run(take, {"argument": argument}))
    del argument
    await asyncio.sleep(0)
    queued.cancel()
    await asyncio.wait([queued])
    del queued
    gc.collect()
    assert held() is None
    gate.set()
    await blocking


async def test_a_thread_without_a_call_ends_and_another_begins_when_there_is_one() -> None:
    threads = Threads(2)
    threads.keep = 0.01
    first: threading.Thread = await threads.run(threading.current_thread, {})

    await asyncio.to_thread(first.join, 10)

    assert not first.is_alive()
    second: threading.Thread = await threads.run(threading.current_thread, {})
    assert second is not first


async def test_where_the_system_has_no_more_threads_calls_are_refused_or_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads(2)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", start)
        with pytest.raises(BusyError, match="The system has no thread for this call"):
            await threads.run(lambda: "refused", {})
    assert "no more worker threads can be started: can't start new thread" in caplog.text

    may_end = threading.Event()
    first = asyncio.ensure_future(threads.run(may_end.wait, {"timeout": 30}))
    await until(lambda: threads._waiting == 0)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", start)
        second = asyncio.ensure_future(threads.run(lambda: "served", {}))
        await asyncio.sleep(0)
    may_end.set()
    assert await first
    assert await asyncio.wait_for(second, 10) == "served"


async def test_calls_that_come_as_threads_end_are_all_served() -> None:
    threads = Threads(3)
    threads.keep = 0.0005

    for _ in range(100):
        calls = [
            asyncio.wait_for(threads.run(lambda value: value, {"value": value}), 10) for value in range(5)
        ]
        assert await asyncio.gather(*calls) == [0, 1, 2, 3, 4]
        await asyncio.sleep(0.0005)
