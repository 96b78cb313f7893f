"""Bounds of what a function returns and says."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, LogHandler, Server
from mcpkit.calls.reports import BURST, MOST_UNREAD, MOST_WAITING
from mcpkit.content.lazy import MOST_ITEMS
from mcpkit.content.plain import DEEPEST
from mcpkit.middlewares import SizeLimit
from mcpkit.transports.http import exchange as exchanges
from mcpkit.transports.http.sessions.events import _BESIDES, MOST_EVENTS, SHARE, Events, Shelf
from tests.helpers.log_records import author_log, calling
from tests.helpers.pipe import META
from tests.helpers.raw_client import Serve
from tests.helpers.waiting import until
from tests.limits.conftest import Ask
from tests.limits.ways import around, limit, peak

pytestmark = [pytest.mark.anyio, pytest.mark.long]

LINE = "x" * 1000


@limit("items of an iterator")
@pytest.mark.parametrize("count", [MOST_ITEMS - 1, MOST_ITEMS, MOST_ITEMS + 1, None])
async def test_items(count: int | None, server: Server, ask: Ask) -> None:
    ended = []

    @server.tool(structured=False)
    def numbers() -> Iterator[int]:
        try:
            yield from itertools.repeat(7) if count is None else itertools.repeat(7, count)
        finally:
            ended.append(True)

    async with ask(server) as client:
        answer = await client.call("numbers")
        if count is not None and count <= MOST_ITEMS:
            assert not answer.is_refused
        else:
            answer.refused(None, "a generator of more than 100,000 items; is it endless?")
        assert ended
        await client.goes_on()


@pytest.mark.long
@limit("nesting of a result")
@pytest.mark.parametrize("levels", around(DEEPEST))
@pytest.mark.parametrize("container", ["list", "dict"])
async def test_nesting(levels: int, container: str, server: Server, ask: Ask) -> None:
    @server.tool
    async def nest() -> Any:
        value: Any = {} if container == "dict" else []
        for _ in range(levels - 1):
            value = {"a": value} if container == "dict" else [value]
        return value

    async with ask(server) as client:
        answer = await client.call("nest")
        if levels <= DEEPEST:
            assert not answer.is_refused
        else:
            answer.refused(None, "more than 190 levels of arrays and objects")
            assert "the tool ran" in answer.text
        await client.goes_on()


@limit("integer in a result")
@pytest.mark.parametrize(
    "excess", [-1, 0, 1, 2**1024, 2**102_400], ids=["below", "at", "above", "twice", "far"]
)
@pytest.mark.parametrize("sign", [1, -1])
async def test_integer(excess: int, sign: int, server: Server, ask: Ask) -> None:
    number = sign * (2**1024 - 1 + excess)

    @server.tool
    async def count() -> int:
        return number

    async with ask(server) as client:
        answer = await client.call("count")
        if abs(number) < 2**1024:
            assert json.loads(answer.text) == number
        else:
            answer.refused(
                None, f"an integer of {number.bit_length():,} bits, which few can read; return a string"
            )
        await client.goes_on()


@limit("size of a tool's result")
@pytest.mark.parametrize("excess", [-1, 0, 1, 1000, 100_000])
async def test_size(excess: int, ask: Ask) -> None:
    sizes: list[int] = []
    text = ["x"]

    class Measured(SizeLimit):
        async def __call__(self, request: Any, call_next: Any) -> Any:
            result = await call_next(request)
            sizes.append(len(result.rendered()))
            return result

    def make(*middleware: Any) -> Server:
        server = Server("limited")
        for each in middleware:
            server.middleware(each)

        @server.tool(structured=False)
        async def repeat() -> str:
            return text[0]

        return server

    async with ask(make(Measured(1))) as client:
        await client.call("repeat")
    text[0] += "x" * (1000 + excess - sizes[-1])
    async with ask(make(SizeLimit(1000))) as client:
        answer = await client.call("repeat")
        if excess <= 0:
            assert answer.text == text[0]
        else:
            answer.refused(None, f"The result is too large: {1000 + excess:,} bytes, of at most 1,000")
        await client.goes_on()


@limit("events kept for a client that comes back")
@given(st.sampled_from(around(MOST_EVENTS)) | st.integers(0, 3 * MOST_EVENTS))
def test_number_of_events(count: int) -> None:
    shelf = Shelf(64 * 1024 * 1024)
    events = Events("0123abcd", shelf)
    for number in range(count):
        assert events.keep("s", number, b"x")
    assert [each.number for each in events.after("s", -1)] == list(range(count))[-MOST_EVENTS:]


@limit("events kept for a client that comes back")
@given(st.sampled_from(around(1000)) | st.integers(0, 3000))
def test_size_of_an_event(size: int) -> None:
    shelf = Shelf(SHARE * (1000 + _BESIDES))
    assert Events("0123abcd", shelf).keep("s", 1, b"x" * size) == (size <= 1000)
    assert shelf.size == (size + _BESIDES if size <= 1000 else 0)


@limit("events kept for a client that comes back")
@pytest.mark.parametrize("count", [MOST_EVENTS - 1, MOST_EVENTS, MOST_EVENTS + 1, 3 * MOST_EVENTS])
async def test_events_that_are_gone(count: int, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("kept")
    monkeypatch.setattr(exchanges, "_MANY", 10_000)

    @server.tool
    async def tell(ctx: Context) -> str:
        for number in range(count - 1):
            await ctx.log("info", number)
        return "told"

    async with serve(server) as client:
        session = await client.initialize()
        answer = session.call("tell")
        first = await answer.event()
        assert first is not None
        await answer.whole()
        missed = [each for each in await session.listen(first.id).messages() if each is not None]
        assert missed[-1]["result"]["content"][0]["text"] == "told"
        assert len(missed) == min(count, MOST_EVENTS)
        await session.ask("ping").whole()


@limit("progress of a call")
@pytest.mark.parametrize("count", around(BURST))
async def test_progress(count: int, server: Server, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(count):
            await ctx.progress(done + 1)
        return "done"

    async with ask(server) as client:
        loop = asyncio.get_running_loop()
        hardly_later = itertools.count(loop.time(), 1e-7)
        with monkeypatch.context() as patch:
            patch.setattr(
                loop, "time", lambda: next(hardly_later)
            )  # it nearly stands still: all come at once
            answer = await client.call("work", progressToken="p")
        told = [note["params"]["progress"] for note in answer.notes]
        last = [count] if count > BURST else []
        assert told == [*range(1, min(count, BURST) + 1), *last], "the latest goes before the response"
        await client.goes_on()


@limit("log records that wait for a client")
@pytest.mark.parametrize("part", [0.9, 1, 1.1, 2, 20])
async def test_log_backlog(part: float, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("logging", offers={"logging"})
    count = int(part * MOST_WAITING / len(LINE))
    with author_log(LogHandler()) as log:

        @server.tool
        async def speak() -> str:
            for _ in range(count):
                log.info(LINE)
            return "spoken"

        async with calling(server, "speak", ready=asyncio.Event().wait) as (connection, sent):
            with peak() as taken:
                await connection.drain()
                assert part < 20 or taken() < 4 * count * len(LINE)  # pytest keeps the records of the logger
    assert b"spoken" in sent[-1]
    bytes_sent = sum(map(len, sent))
    assert bytes_sent < MOST_WAITING + MOST_UNREAD + 3 * len(LINE)
    dropped = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    if part < 1:
        assert dropped == []
        assert len(sent) == count + 1
    else:
        assert len(dropped) == (1 if len(sent) < count + 1 else 0)
        assert part == 1 or dropped[0].split()[0] == str(count - (len(sent) - 1))


@limit("client that does not read")
async def test_patience(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "_PATIENCE", 0.05)
    server = Server("patient")

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "x")
        return "x" * 1_000_000

    async with serve(server) as client:
        slow, gone = (client.call("speak", meta={META + "logLevel": "info"}) for _ in range(2))
        await slow.message()
        gone.stop_reading()
        await until(lambda: gone.task.done())
        client.opened.remove(gone)
        assert "result" in await slow.message()
        assert (await client.ask("tools/list").whole()).status == 200


@limit("what waits for a client of HTTP+SSE")
@given(st.sampled_from(around(10_000)) | st.integers(0, 30_000), st.integers(1, 5))
def test_behind(size: int, pieces: int) -> None:
    async def no(*_: Any) -> Any:
        raise AssertionError

    exchange = exchanges.Exchange(no, no, 15)
    most, exchanges.MOST_QUEUED = exchanges.MOST_QUEUED, 10_000  # type: ignore[misc]
    try:
        for piece in range(pieces):
            exchange.push(b"x" * (size // pieces + (piece < size % pieces)))
        assert exchange.is_behind == (size > 10_000)
    finally:
        exchanges.MOST_QUEUED = most  # type: ignore[misc]
