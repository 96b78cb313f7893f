"""Functions in worker threads: how many, with which context, and what becomes of what they raise."""

import asyncio
import contextvars
import logging
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import pytest

from mcpkit import Context, Depends, RegistrationError, Server
from mcpkit.calls.workers.threads import Threads
from mcpkit.common.errors import BusyError
from mcpkit.testing import TestClient, connect
from tests.helpers.waiting import over, until

pytestmark = pytest.mark.anyio


async def test_a_function_runs_in_a_daemon_thread_with_the_callers_context() -> None:
    variable = contextvars.ContextVar("variable", default="nobody")

    def look(x: int) -> tuple[bool, bool, str, int]:
        thread = threading.current_thread()
        return thread is threading.main_thread(), thread.daemon, variable.get(), x

    variable.set("the caller")
    assert await Threads(1).run(look, {"x": 3}) == (False, True, "the caller", 3)


async def test_there_are_never_more_threads_than_the_limit() -> None:
    threads = Threads(2)

    def ident() -> int:
        return threading.get_ident()

    idents = await asyncio.gather(*(threads.run(ident, {}) for _ in range(50)))
    assert len(set(idents)) <= 2


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyError("x")])
async def test_exception_of_a_thread_is_raised_in_the_caller(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await Threads(1).run(fail, {})
    assert caught.value is error


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


async def test_abandoned_thread_ends_when_replaced() -> None:
    threads, blocked = Threads(1), Blocked()
    await blocked.give_up_in(threads)
    other = await threads.run(threading.current_thread, {})
    await blocked.let_go(threads)
    await asyncio.to_thread(blocked.threads[0].join, 10)
    assert not blocked.threads[0].is_alive()
    assert await threads.run(threading.current_thread, {}) is other


async def test_too_many_stuck_threads_refuse_new_calls_until_some_return() -> None:
    threads, blocked = Threads(1, stuck=1), Blocked()
    await blocked.give_up_in(threads)
    assert await threads.run(lambda: "served", {}) == "served"
    await blocked.give_up_in(threads)
    with pytest.raises(
        BusyError, match=r"worker threads \(2\) still run .* \(Limits\(abandoned_threads=1\)\)"
    ):
        await threads.run(lambda: "refused", {})
    await blocked.let_go(threads)
    assert await threads.run(lambda: "served", {}) == "served"


async def test_exception_of_an_abandoned_thread_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    threads, blocked = Threads(1), Blocked()
    blocked.error = KeyError("late")
    await blocked.give_up_in(threads)
    await blocked.let_go(threads)
    await until(lambda: caplog.records)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert record.exc_info[1] is blocked.error


class Asynchronous:
    async def __call__(self) -> None: ...

    async def method(self) -> None: ...


async def asynchronous() -> None: ...


@pytest.mark.parametrize(
    "function", [asynchronous, partial(asynchronous), Asynchronous(), Asynchronous().method]
)
def test_an_async_function_is_not_for_threads(function: Any) -> None:
    with pytest.raises(RegistrationError, match=r"runs in the event loop. Remove run_in=.thread."):
        Server("s").tool(name="f", run_in="thread")(function)


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


async def test_a_thread_without_a_call_ends_and_another_begins_when_there_is_one() -> None:
    threads = Threads(2)
    threads.keep = 0.01
    first: threading.Thread = await threads.run(threading.current_thread, {})

    await asyncio.to_thread(first.join, 10)

    assert not first.is_alive()
    second: threading.Thread = await threads.run(threading.current_thread, {})
    assert second is not first


async def test_calls_that_wait_for_a_thread_cannot_get_stuck_beyond_the_limit() -> None:
    threads, gate = Threads(2, stuck=1), threading.Event()
    blocked: list[threading.Thread] = []

    def block() -> None:
        blocked.append(threading.current_thread())
        gate.wait(10)

    calls = [asyncio.create_task(threads.run(block, {})) for _ in range(20)]
    try:
        for call in calls:
            await until(lambda: len(blocked) >= threads.given_up + 1 or threads.given_up > 1)
            call.cancel()
            await asyncio.wait((call,))
        assert len(blocked) <= 4
        assert sum(isinstance(call.exception(), BusyError) for call in calls if not call.cancelled()) > 10
    finally:
        gate.set()
    await until(lambda: not threads.given_up)
    assert await threads.run(lambda: "served", {}) == "served"


async def test_thread_that_waits_for_the_event_loop_is_released_on_cancel() -> None:
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
        call = asyncio.create_task(client.call_tool("work"))
        await asked.wait()
        call.cancel()
        await asyncio.wait([call])
        await until(lambda: seen)
    assert seen == [True]


async def test_where_the_system_has_no_more_threads_calls_are_refused_or_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads(2)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", start)
        with pytest.raises(BusyError, match="The system cannot start a thread for this call"):
            await threads.run(lambda: "refused", {})
    assert "a worker thread could not be started: can't start new thread" in caplog.text

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


ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT begin() UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def server() -> Server:
    return Server("s")


class Stopped:
    """What is stopped: it waits until it is.

    Attributes:
        calls: The threads that have stopped it.
        started: Set when it waits.
        ended: Set when the test lets it go on to its end.
    """

    def __init__(self) -> None:
        self.calls: list[threading.Thread] = []
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()

    def stop(self) -> None:
        self.calls.append(threading.current_thread())
        self._stopped.set()

    def wait(self) -> None:
        self._loop.call_soon_threadsafe(self.started.set)
        assert self._stopped.wait(10)
        self._loop.call_soon_threadsafe(self.ended.set)


@pytest.fixture
async def stopped() -> Stopped:
    return Stopped()


async def end_call(client: TestClient, stopped: Stopped, name: str = "work") -> None:
    """Call a tool, cancel it when it waits, and return when its function ends."""
    call = asyncio.create_task(client.call_tool(name))
    await stopped.started.wait()
    await over(call)
    await asyncio.wait_for(stopped.ended.wait(), 10)


@ERAS
@pytest.mark.parametrize("end", ["cancelled", "out of time", "server ends"])
@pytest.mark.parametrize("way", ["until it returns", "for a block"])
async def test_a_query_is_interrupted(
    way: str, end: str, revision: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcpkit")
    started, interrupted = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def begin() -> int:
        loop.call_soon_threadsafe(started.set)
        return 1

    @server.tool(timeout=0.2 if end == "out of time" else None)
    def query(ctx: Context) -> int:
        database = sqlite3.connect(":memory:")
        database.create_function("begin", 0, begin)
        try:
            if way == "for a block":
                with ctx.sync.on_cancel(database.interrupt):
                    return int(database.execute(ENDLESS).fetchone()[0])
            ctx.sync.on_cancel(database.interrupt)
            return int(database.execute(ENDLESS).fetchone()[0])
        finally:
            database.close()
            loop.call_soon_threadsafe(interrupted.set)

    async with connect(server, protocol_version=revision) as client:
        call = asyncio.create_task(client.call_tool("query"))
        await started.wait()
        if end == "cancelled":
            await over(call)
        elif end == "out of time":
            assert (await call).text == "timed out after 0.2 s"
        if end != "server ends":
            await asyncio.wait_for(interrupted.wait(), 10)
    await asyncio.wait_for(interrupted.wait(), 10)
    await asyncio.wait([call])
    assert (end == "server ends") is (not call.cancelled() and call.exception() is not None)
    await until(lambda: "its call had ended" in caplog.text)
    late = [record for record in caplog.records if "its call had ended" in record.getMessage()]
    assert [record.levelno for record in late] == [logging.DEBUG]
    assert all(record.levelno < logging.WARNING for record in caplog.records)


async def test_on_cancel_block_waits_for_the_running_callback(server: Server, stopped: Stopped) -> None:
    events: list[str] = []
    may_return = threading.Event()

    def stop() -> None:
        stopped.stop()
        may_return.wait(10)
        events.append("stopped")

    @server.tool
    def work(ctx: Context) -> None:
        with ctx.sync.on_cancel(stop):
            stopped.wait()
        events.append("block left")

    async with connect(server) as client:
        await end_call(client, stopped)
        may_return.set()
        await until(lambda: len(events) == 2)
    assert events == ["stopped", "block left"]


async def test_failing_on_cancel_is_logged_and_others_are_called(
    server: Server, stopped: Stopped, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("cannot be stopped")

    @server.tool
    def work(ctx: Context) -> None:
        ctx.sync.on_cancel(stopped.stop)
        ctx.sync.on_cancel(fail)
        stopped.wait()

    async with connect(server) as client:
        await end_call(client, stopped)
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert (
        record.getMessage()
        == "a function of on_cancel= raised while tools/call was cancelled. Its handler may still run in its thread"
    )
    assert record.exc_info is not None


async def test_in_the_event_loop_there_is_cancellation_instead(server: Server) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        with pytest.raises(RuntimeError, match="only works in a worker thread"):
            ctx.sync.on_cancel(print)
        return "refused"

    async with connect(server) as client:
        assert (await client.call_tool("work")).text == "refused"


# What is said too late


@pytest.mark.parametrize("way", ["last", "before a coroutine's"])
async def test_dependency_may_register_on_cancel(way: str, server: Server, stopped: Stopped) -> None:
    def opened(ctx: Context) -> Iterator[Stopped]:
        with ctx.sync.on_cancel(stopped.stop):
            yield stopped

    async def other(value: Annotated[Stopped, Depends(opened)]) -> Stopped:
        return value

    Given = Annotated[Stopped, Depends(opened if way == "last" else other)]

    @server.tool
    def work(value: Given) -> None:  # type: ignore[valid-type]
        value.wait()  # type: ignore[attr-defined]

    async with connect(server) as client:
        await end_call(client, stopped)
    assert len(stopped.calls) == 1


@pytest.mark.parametrize("stop", [None, "interrupt", asyncio.sleep], ids=["called", "text", "async"])
async def test_on_cancel_wrong_callback_is_refused(server: Server, stop: Any) -> None:
    @server.tool
    def work(ctx: Context) -> str:
        with pytest.raises(TypeError, match=r"such as db\.interrupt \(without parentheses\), got"):
            ctx.sync.on_cancel(stop)
        return "refused"

    async with connect(server) as client:
        assert (await client.call_tool("work")).text == "refused"
