"""How often progress is told, and what becomes of what is held back."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from mcpkit import Context, Server, ToolError
from mcpkit.calls import reporting
from mcpkit.calls.reports import BURST, INTERVAL
from mcpkit.engine.connection import Connection
from mcpkit.testing import connect
from tests.helpers.pipe import Pipe, settle
from tests.helpers.waiting import kept_busy
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

AT_ONCE = list(range(1, BURST + 1))


class Clock:
    """The loop's time, which stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        await settle()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock)
    return clock


@pytest.fixture
def server() -> Server:
    return Server("s")


def reported(pipe: Pipe) -> list[Any]:
    """Return what has come: the numbers of progress notifications, and `answer` or `error` for a response."""
    come = []
    while not pipe.out.empty():
        message = pipe.out.get_nowait()
        if message.get("method") == "notifications/progress":
            come.append(message["params"]["progress"])
        elif "id" in message:
            come.append("error" if "error" in message or message["result"].get("isError") else "answer")
    return come


async def finished(pipe: Pipe) -> list[Any]:
    """Wait until all is answered, and return what has come."""
    await pipe.connection.drain()
    await settle()
    assert pipe.verdict is None
    return reported(pipe)


@pytest.mark.parametrize("outcome", ["answer", "error"])
@pytest.mark.usefixtures("clock")
async def test_the_latest_of_what_comes_too_fast_goes_before_the_response(
    server: Server, wire: Wire, revision: str, outcome: str
) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 101):
            await ctx.progress(done)
        if outcome == "error":
            raise ToolError("no")
        return ""

    async with wire(server, revision) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        assert await finished(pipe) == [*AT_ONCE, 100, outcome]


@pytest.mark.usefixtures("clock")
async def test_it_goes_before_the_response_of_a_call_that_has_waited(server: Server, wire: Wire) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 101):
            await ctx.progress(done)
            await asyncio.sleep(0)
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        assert await finished(pipe) == [*AT_ONCE, 100, "answer"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_is_held_back_is_sent_when_its_time_comes(
    server: Server, wire: Wire, clock: Clock, is_async: bool
) -> None:
    gate, open_door, told = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 14):
            await ctx.progress(done)
        told.set()
        await gate.wait()
        return ""

    @server.tool
    def work_in_thread(ctx: Context) -> str:
        for done in range(1, 14):
            ctx.sync.progress(done)
        loop.call_soon_threadsafe(told.set)
        open_door.wait(10)
        return ""

    async with wire(server) as pipe:
        name = "work" if is_async else "work_in_thread"
        pipe.start("tools/call", {"name": name}, progressToken="p")
        await told.wait()
        assert reported(pipe)[-1:] == [BURST]
        await clock.advance(INTERVAL * 0.9)
        assert reported(pipe) == []
        await clock.advance(INTERVAL * 0.2)
        assert reported(pipe) == [13]
        await clock.advance(INTERVAL * 9)
        assert reported(pipe) == [], "it has been sent once"
        gate.set()
        open_door.set()
        assert await finished(pipe) == ["answer"]


async def test_no_second_has_more_than_fifty(server: Server, wire: Wire, clock: Clock) -> None:
    times: list[tuple[float, float]] = []

    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(4000):
            await ctx.progress(done)
            clock.now += 0.001
            await asyncio.sleep(0)
        return ""

    def note(message: bytes) -> None:
        if b"notifications/progress" in message:
            times.append((clock.now, len(times)))

    connection = Connection(server, note)
    async with server.running():
        connection.receive(_call("work"))
        await connection.drain()
        await connection.aclose()
    for start, number in times:
        assert len([1 for time, later in times if later >= number and time <= start + 1]) <= 50
    assert len(times) >= 4 / INTERVAL * 0.95, "and what may be told is told"


async def test_the_total_is_told_at_once_though_much_was_told_before(
    server: Server, wire: Wire, clock: Clock
) -> None:
    gate = asyncio.Event()

    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 51):
            await ctx.progress(done, 50)
        await gate.wait()
        await ctx.progress(51, 51)
        await ctx.progress(52, 52)
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        await settle()
        assert reported(pipe) == [*AT_ONCE, 50]
        await clock.advance(INTERVAL * 1.1)
        assert reported(pipe) == [], "what was held back has been replaced"
        gate.set()
        assert await finished(pipe) == [52, "answer"], "a total that moves is no way around the limit"


async def test_what_is_told_at_once_does_not_bring_the_next_one_forward(
    server: Server, wire: Wire, clock: Clock
) -> None:
    gate = asyncio.Event()

    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 12):
            await ctx.progress(done)
        await ctx.progress(12, 12)
        await ctx.progress(13)
        await gate.wait()
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        await settle()
        assert reported(pipe) == [*AT_ONCE, 12]
        await clock.advance(INTERVAL * 1.1)
        assert reported(pipe) == []
        await clock.advance(INTERVAL)
        assert reported(pipe) == [13]
        gate.set()
        assert await finished(pipe) == ["answer"]


async def test_nothing_is_told_of_a_call_that_was_cancelled(server: Server, wire: Wire, clock: Clock) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 14):
            await ctx.progress(done)
        await asyncio.Event().wait()
        return ""

    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "work"}, progressToken="p")
        await settle()
        assert reported(pipe) == AT_ONCE
        pipe.cancel(id_)
        await clock.advance(1)
        assert await finished(pipe) == []


async def test_what_a_thread_reports_at_the_moment_of_the_cancellation_is_not_told(
    server: Server, wire: Wire, clock: Clock
) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    @server.tool
    def work(ctx: Context) -> str:
        for done in range(1, BURST + 1):
            ctx.sync.progress(done)
        with kept_busy(loop):
            loop.call_soon_threadsafe(lambda: pipe.cancel(id_))
            ctx.sync.progress(BURST + 1)
        loop.call_soon_threadsafe(over.set)
        return ""

    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "work"}, progressToken="p")
        await over.wait()
        await clock.advance(1)
        assert await finished(pipe) == AT_ONCE


async def test_what_comes_too_late_is_not_sent(server: Server, wire: Wire) -> None:
    kept: list[reporting.Reports] = []

    @server.tool
    async def work(ctx: Context) -> str:
        reports = reporting.reports_of(ctx.call)
        assert reports.note(1, None, None)
        kept.append(reports)
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        assert await finished(pipe) == [1, "answer"]
        with pytest.raises(RuntimeError, match="has ended"):
            await kept[0].deliver()
        kept[0].post(
            b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":""}}'
        )
        await pipe.quiet()


async def test_without_a_token_there_is_neither_timer_nor_anything_kept(
    server: Server, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[Any] = []
    kept: list[Any] = []

    @server.tool
    async def work(ctx: Context) -> str:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_at", lambda *args, **_: timers.append(args))
        for done in range(100):
            await ctx.progress(done)
        monkeypatch.undo()
        kept.append(ctx.call.reports)
        return ""

    async with wire(server) as pipe:
        await pipe.call("work")
    assert timers == []
    assert kept == [None]


async def test_without_a_token_a_thread_does_not_wait_for_the_event_loop(server: Server) -> None:
    loop = asyncio.get_running_loop()

    @server.tool
    def work(ctx: Context) -> int:
        with kept_busy(loop):
            seen = sum(ctx.sync.track([1, 2, 3], "Adding"))
            ctx.sync.progress(4)
        return seen

    async with connect(server) as client:
        assert (await client.call("work")).structured == 6


async def test_threads_of_one_request_report_in_order(server: Server, wire: Wire) -> None:
    @server.tool
    def work(ctx: Context) -> str:
        def report(start: int) -> None:
            for done in range(start, 400, 4):
                ctx.sync.progress(done)

        threads = [threading.Thread(target=report, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        *told, answer = await finished(pipe)
        assert answer == "answer"
        assert told == sorted(set(told))
        assert told[-1] == 399


async def test_what_cannot_be_sent_is_refused_at_once(server: Server, wire: Wire) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        for done, total in ((float("nan"), None), (1, float("inf"))):
            with pytest.raises(ValueError, match="finite"):
                await ctx.progress(done, total)
        for done, total in ((0, 10**400), (-(10**5000), 1)):
            with pytest.raises(ValueError, match=r"below 1\.8e308"):
                await ctx.progress(done, total)
        await ctx.progress(2, message="whole")
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        assert await finished(pipe) == [2, "answer"]


async def test_numbers_of_any_kind_are_numbers_on_the_wire(server: Server, wire: Wire) -> None:
    class Whole(int): ...

    @server.tool
    async def work(ctx: Context) -> str:
        for done in (Whole(1), Decimal("1.5"), Fraction(7, 4), True, 2.5):
            await ctx.progress(done, Decimal(9))  # type: ignore[arg-type]
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        assert await finished(pipe) == [1.0, 1.5, 1.75, 2.5, "answer"]


async def test_a_reader_that_does_not_keep_up_holds_the_report_not_the_server(server: Server) -> None:
    sent: list[bytes] = []
    room = asyncio.Event()

    @server.tool
    async def work(ctx: Context) -> str:
        await ctx.progress(1)
        return ""

    connection = Connection(server, sent.append, ready=room.wait)
    async with server.running():
        connection.receive(_call("work"))
        await settle()
        assert len(sent) == 1
        room.set()
        await connection.drain()
        assert len(sent) == 2
        await connection.aclose()


async def test_a_thread_that_goes_on_after_the_end_is_told_so(server: Server, wire: Wire) -> None:
    gate, told = threading.Event(), asyncio.Event()
    errors: list[str] = []
    loop = asyncio.get_running_loop()
    threads: list[Any] = []

    @server.tool
    async def work(ctx: Context) -> str:
        def go_on() -> None:
            gate.wait(10)
            try:
                for _ in ctx.sync.track([1, 2, 3]):
                    pass
            except RuntimeError as error:
                errors.append(str(error))
            loop.call_soon_threadsafe(told.set)

        threads.append(asyncio.ensure_future(asyncio.to_thread(go_on)))
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        assert await finished(pipe) == ["answer"]
        gate.set()
        await asyncio.wait_for(told.wait(), 10)
        assert "has ended" in errors[0]
        assert await finished(pipe) == []
    await threads[0]


def _call(name: str) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","_meta":{"progressToken":"p",'
        b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{}}}}' % name.encode()
    )
