"""Functions in worker threads: how many, with which context, what they raise, and how they are stopped."""

import asyncio
import contextvars
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import pytest

from mcpkit import Context, Depends, RegistrationError, Server
from mcpkit._utils.exceptions import BusyError
from mcpkit.execution.worker_threads import Threads
from mcpkit.testing import connect
from tests.helpers.tables import each_row
from tests.helpers.waiting import over, until


async def test_function_runs_in_a_daemon_thread_with_the_context_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="default")

    def observe(x: int) -> tuple[bool, bool, str, int]:
        thread = threading.current_thread()
        return thread is threading.main_thread(), thread.daemon, variable.get(), x

    variable.set("the caller")
    assert await Threads(1).run(observe, {"x": 3}) == (False, True, "the caller", 3)


async def test_threads_do_not_exceed_the_limit() -> None:
    threads = Threads(2)
    idents = await asyncio.gather(*(threads.run(threading.get_ident, {}) for _ in range(50)))
    assert len(set(idents)) <= 2


@each_row("error", [ValueError("x"), SystemExit(3), KeyError("x")])
async def test_exception_of_a_thread_is_raised_in_the_caller(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await Threads(1).run(fail, {})
    assert caught.value is error


class Blocked:
    """A function that blocks its thread until the test releases it.

    Attributes:
        threads: The threads that have run it, in order.
        error: The exception that it then raises.
    """

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.error: BaseException | None = None
        self._gate = threading.Event()

    def __call__(self) -> str:
        self.threads.append(threading.current_thread())
        self._gate.wait(30)
        if self.error is not None:
            raise self.error
        return "dropped"

    async def cancel_in(self, threads: Threads) -> None:
        """Call it, and cancel the call when it runs."""
        count = len(self.threads)
        task = asyncio.create_task(threads.run(self, {}))
        await until(lambda: len(self.threads) > count)
        await over(task)
        assert task.cancelled()

    async def release(self, threads: Threads) -> None:
        self._gate.set()
        await until(lambda: not threads.abandoned)


async def test_abandoned_thread_is_replaced_and_ends_on_return() -> None:
    threads, blocked = Threads(1), Blocked()
    await blocked.cancel_in(threads)
    assert threads.abandoned == 1
    other = await threads.run(threading.current_thread, {})
    assert other is not blocked.threads[0]
    await blocked.release(threads)
    await until(lambda: not blocked.threads[0].is_alive())
    assert await threads.run(threading.current_thread, {}) is other


async def test_abandoned_threads_above_the_limit_refuse_new_calls_until_one_returns() -> None:
    threads, blocked = Threads(1, max_abandoned=1), Blocked()
    await blocked.cancel_in(threads)
    assert await threads.run(lambda: "served", {}) == "served"
    await blocked.cancel_in(threads)
    refused = r"worker threads \(2\) still run .* \(Limits\(abandoned_threads=1\)\)"
    with pytest.raises(BusyError, match=refused):
        await threads.run(lambda: "refused", {})
    await blocked.release(threads)
    assert await threads.run(lambda: "served", {}) == "served"


async def test_exception_of_an_abandoned_thread_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    threads, blocked = Threads(1), Blocked()
    blocked.error = KeyError("late")
    await blocked.cancel_in(threads)
    await blocked.release(threads)
    await until(lambda: caplog.records)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert record.exc_info[1] is blocked.error


async def asynchronous() -> None: ...


@each_row("function", [asynchronous, partial(asynchronous)])
def test_async_function_in_a_thread_is_refused(function: Any) -> None:
    with pytest.raises(RegistrationError, match=r"runs in the event loop. Remove run_in=.thread."):
        Server("s").tool(name="f", run_in="thread")(function)


async def test_function_cancelled_before_its_turn_never_runs() -> None:
    threads, gate, calls = Threads(1), threading.Event(), []
    first = asyncio.ensure_future(threads.run(gate.wait, {"timeout": 30}))
    second = asyncio.ensure_future(threads.run(lambda: calls.append(True), {}))
    await asyncio.sleep(0)
    await over(second)
    gate.set()
    await first
    await threads.run(int, {})
    assert calls == []


async def test_idle_thread_ends_and_another_starts_for_the_next_call() -> None:
    threads = Threads(2)
    threads.idle_timeout = 0.01
    first: threading.Thread = await threads.run(threading.current_thread, {})
    await until(lambda: not first.is_alive())
    assert await threads.run(threading.current_thread, {}) is not first


async def test_waiting_calls_cannot_abandon_threads_beyond_the_limit() -> None:
    threads, blocked = Threads(2, max_abandoned=1), Blocked()
    calls = [asyncio.create_task(threads.run(blocked, {})) for _ in range(20)]
    for call in calls:
        await until(lambda: len(blocked.threads) >= threads.abandoned + 1 or threads.abandoned > 1)
        await over(call)
    assert len(blocked.threads) <= 4
    assert sum(isinstance(call.exception(), BusyError) for call in calls if not call.cancelled()) > 10
    await blocked.release(threads)
    assert await threads.run(lambda: "served", {}) == "served"


async def test_calls_are_refused_or_wait_while_the_system_has_no_more_threads(monkeypatch, caplog) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads, gate = Threads(2), threading.Event()
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", start)
        with pytest.raises(BusyError, match="The system cannot start a thread for this call"):
            await threads.run(lambda: "refused", {})
    assert "a worker thread could not be started: can't start new thread" in caplog.text
    first = asyncio.ensure_future(threads.run(gate.wait, {"timeout": 30}))
    await until(lambda: threads._waiting == 0)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", start)
        second = asyncio.ensure_future(threads.run(lambda: "served", {}))
        await asyncio.sleep(0)
    gate.set()
    assert await first
    assert await asyncio.wait_for(second, 30) == "served"


async def test_thread_that_waits_for_the_event_loop_is_released_on_cancel() -> None:
    server = Server("s")
    waiting, errors = asyncio.Event(), []

    @server.tool
    def work(ctx: Context) -> None:
        async def never() -> None:
            waiting.set()
            await asyncio.Event().wait()

        try:
            ctx.sync._run(never())
        except RuntimeError as error:
            errors.append(str(error))

    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("work"))
        await waiting.wait()
        await over(call)
        await until(lambda: errors)
    assert "has ended" in errors[0]


# Callbacks that stop a thread


@pytest.fixture
def server() -> Server:
    return Server("s")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT begin() UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.parametrize("end", ["cancelled", "out of time", "server ends"])
async def test_on_cancel_interrupts_a_query(end, server, caplog) -> None:
    caplog.set_level(logging.DEBUG, "mcpkit")
    started, interrupted = threading.Event(), threading.Event()

    @server.tool(timeout=0.2 if end == "out of time" else None)
    def query(ctx: Context) -> int:
        database = sqlite3.connect(":memory:")
        database.create_function("begin", 0, lambda: started.set() or 1)
        ctx.sync.on_cancel(database.interrupt)
        try:
            return int(database.execute(ENDLESS).fetchone()[0])
        finally:
            database.close()
            interrupted.set()

    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("query"))
        await until(started.is_set)
        if end == "cancelled":
            await over(call)
        elif end == "out of time":
            assert (await call).text == "timed out after 0.2 s"
        if end != "server ends":
            await until(interrupted.is_set)
    await until(interrupted.is_set)
    await asyncio.wait([call])
    assert (end == "server ends") is (not call.cancelled() and call.exception() is not None)
    await until(lambda: "its call had ended" in caplog.text)
    assert [each.levelname for each in caplog.records if "call had ended" in each.getMessage()] == ["DEBUG"]
    assert all(record.levelno < logging.WARNING for record in caplog.records)


class Stoppable:
    """A tool's work that waits until it is stopped.

    Attributes:
        events: `stopped` for each call of `stop`, and what a test adds.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self._started, self._stopped = threading.Event(), threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        self.events.append("stopped")

    def wait(self) -> None:
        self._started.set()
        assert self._stopped.wait(30)

    async def cancel(self, server: Server, work: Callable[..., None]) -> None:
        """Call a tool, cancel it when it waits, and return when it has left `work`."""
        server.tool(work, name="work")
        async with connect(server) as client:
            call = asyncio.create_task(client.call_tool("work"))
            await until(self._started.is_set)
            await over(call)
            await until(lambda: "left" in self.events)


@pytest.fixture
def stoppable() -> Stoppable:
    return Stoppable()


async def test_on_cancel_block_waits_for_the_running_callback(server: Server, stoppable: Stoppable) -> None:
    def stop() -> None:
        stoppable.stop()
        threading.Event().wait(0.05)
        stoppable.events.append("callback returns")

    def work(ctx: Context) -> None:
        with ctx.sync.on_cancel(stop):
            stoppable.wait()
        stoppable.events.append("left")

    await stoppable.cancel(server, work)
    assert stoppable.events == ["stopped", "callback returns", "left"]


async def test_on_cancel_that_fails_is_logged_and_others_are_called(server, stoppable, caplog) -> None:
    def fail() -> None:
        raise ValueError("cannot be stopped")

    def work(ctx: Context) -> None:
        ctx.sync.on_cancel(stoppable.stop)
        ctx.sync.on_cancel(fail)
        stoppable.wait()
        stoppable.events.append("left")

    await stoppable.cancel(server, work)
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert record.getMessage() == (
        "a function of on_cancel= raised while tools/call was cancelled. Its handler may still run in its thread"
    )
    assert record.exc_info is not None


@pytest.mark.parametrize("is_last", [True, False], ids=["last", "before that of a coroutine"])
async def test_on_cancel_of_dependency_is_called_once(is_last, server, stoppable) -> None:
    def opened(ctx: Context) -> Iterator[Stoppable]:
        with ctx.sync.on_cancel(stoppable.stop):
            yield stoppable

    async def other(value: Annotated[Stoppable, Depends(opened)]) -> Stoppable:
        return value

    def work(value: Annotated[Any, Depends(opened if is_last else other)]) -> None:
        value.wait()
        stoppable.events.append("left")

    await stoppable.cancel(server, work)
    assert stoppable.events == ["stopped", "left"]


@each_row(("stop", "is_thread", "error", "message"), [
    *[(stop, True, TypeError, r"such as db\.interrupt \(without parentheses\), got")
      for stop in (None, "interrupt", asyncio.sleep)],
    (print, False, RuntimeError, "only works in a worker thread"),
])  # fmt: skip
async def test_on_cancel_wrong_callback_or_place_is_refused(stop, is_thread, error, message) -> None:
    server = Server("s")

    @server.tool(run_in="thread" if is_thread else "loop")
    def work(ctx: Context) -> str:
        with pytest.raises(error, match=message):
            ctx.sync.on_cancel(stop)
        return "refused"

    async with connect(server) as client:
        assert (await client.call_tool("work")).text == "refused"
