"""What a function in a worker thread says stops it is called when nobody waits for it any more, and only then."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import logging
import sqlite3
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from mcpkit import Context, Depends, Server
from mcpkit.testing import TestClient, connect
from tests.helpers.waiting import over, until

pytestmark = pytest.mark.anyio

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
