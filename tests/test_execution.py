"""Functions in worker threads: how many, with which context, and what becomes of what they raise."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref

import pytest

from mcpkit import Server
from mcpkit.execution import Threads
from mcpkit.testing import connect

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


async def test_a_cancelled_caller_is_free_while_the_thread_goes_on() -> None:
    threads = Threads(1)
    started, gate = threading.Event(), threading.Event()
    done = []

    def block() -> None:
        started.set()
        gate.wait(10)
        done.append(True)

    task = asyncio.ensure_future(threads.run(block, {}))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == []
    gate.set()
    assert await threads.run(lambda: "next", {}) == "next"
    assert done == [True]


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


async def test_calls_that_come_as_threads_end_are_all_served() -> None:
    threads = Threads(3)
    threads.keep = 0.0005

    for _ in range(100):
        calls = [
            asyncio.wait_for(threads.run(lambda value: value, {"value": value}), 10) for value in range(5)
        ]
        assert await asyncio.gather(*calls) == [0, 1, 2, 3, 4]
        await asyncio.sleep(0.0005)
