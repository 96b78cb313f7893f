"""Log records of the author and progress reports, at the client of the request that they belong to."""

import asyncio
import io
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import Context as ContextVars
from typing import Any

import pytest

from mcpkit import Context, LogHandler, Server, ServerOptions
from mcpkit.requests import progress_and_logging as reporting
from mcpkit.testing import connect
from tests.helpers.log_records import CANCELLED, author_log, calling, logged_by, texts
from tests.helpers.pipe import settle
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock, blocked_loop, until

WAYS = pytest.mark.parametrize("way", ["in_loop", "in_thread"])


@pytest.fixture
def handler() -> LogHandler:
    return LogHandler()


@pytest.fixture
def log(handler: LogHandler) -> Iterator[logging.Logger]:
    with author_log(handler) as log:
        yield log


@pytest.fixture
def server() -> Server:
    return Server("s", options=ServerOptions(capabilities={"logging"}))


@WAYS
async def test_log_handler_sends_a_record_before_the_result(server, log, revision, way) -> None:
    @server.tool
    async def in_loop(page: int) -> None:
        log.warning("page %d is torn", page)

    @server.tool
    def in_thread(page: int) -> None:
        log.warning("page %d is torn", page)

    async with connect(server, protocol_version=revision) as client:
        messages = await logged_by(client, way, page=3)
    assert messages == [{"level": "warning", "data": "page 3 is torn", "logger": "archive.pages"}]


LEVELS = {
    5: "debug", 10: "debug", 19: "debug", 20: "info", 25: "notice", 30: "warning", 39: "warning", 40: "error",
    50: "critical", 60: "alert", 70: "emergency", 99: "emergency",
}  # fmt: skip


async def test_log_records_have_at_least_the_requested_level(server, log, revision) -> None:
    server.tool(lambda: [log.log(number, number) for number in LEVELS], name="work")
    async with connect(server, protocol_version=revision) as client:
        messages = await logged_by(client, "work")
        assert [message["level"] for message in messages] == list(LEVELS.values())
        assert texts(await logged_by(client, "work", "error")) == ["40", "50", "60", "70", "99"]
        await logged_by(client, "work", "emergency")
        client.notifications.clear()
        await client.call_tool("work")
        by_default = [each["params"]["data"] for each in client.notifications]
        assert by_default == ([] if revision == "2026-07-28" else ["70", "99"])


async def test_log_records_of_concurrent_requests_are_separate(server: Server, log: logging.Logger) -> None:
    both = asyncio.Event()
    running: list[str] = []

    @server.tool
    async def work(me: str) -> None:
        running.append(me)
        if len(running) == 2:
            both.set()
        await both.wait()
        log.info("I am %s", me)

    async with connect(server) as one, connect(server) as other:
        results = await asyncio.gather(logged_by(one, "work", me="one"), logged_by(other, "work", me="other"))
    assert [texts(messages) for messages in results] == [["I am one"], ["I am other"]]


async def test_log_record_outside_a_request_is_dropped(server: Server, log: logging.Logger) -> None:
    gate = asyncio.Event()
    late: list[asyncio.Task[None]] = []

    async def log_later() -> None:
        await gate.wait()
        log.error("too late")

    @server.tool
    async def work() -> None:
        late.append(asyncio.ensure_future(log_later()))
        thread = threading.Thread(target=ContextVars().run, args=(log.error, "of another context"))
        thread.start()
        thread.join(10)

    log.error("outside")
    async with connect(server) as client:
        assert await logged_by(client, "work") == []
        gate.set()
        await late[0]
        await settle()
        assert [each for each in client.notifications if "data" in each.get("params", {})] == []


async def test_log_records_of_mcpkit_are_not_sent(server, handler: LogHandler, monkeypatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [*root.handlers, handler])

    server.tool(lambda: logging.getLogger("mcpkit.something").error("inside"), name="work")
    async with connect(server) as client:
        assert await logged_by(client, "work") == []


async def test_traceback_is_sent_only_with_tracebacks_enabled(server, log, handler, monkeypatch) -> None:
    others = io.StringIO()  # of a handler that leaves the traceback in the record
    monkeypatch.setattr(log, "handlers", [logging.StreamHandler(others), handler])

    @server.tool
    async def fail() -> None:
        try:
            raise ValueError("inside")
        except ValueError:
            log.exception("failed", stack_info=True)

    async with connect(server) as client:
        assert texts(await logged_by(client, "fail")) == ["failed"]
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        assert texts(await logged_by(client, "fail")) == ["ERROR: failed"]
        handler.with_tracebacks = True
        (text,) = texts(await logged_by(client, "fail"))
        assert "ValueError: inside" in text
        assert "Stack (most recent call last)" in text
    assert others.getvalue().count("ValueError: inside") == 3


async def test_log_record_that_cannot_be_formatted_raises_nothing(server, log, capsys, monkeypatch) -> None:
    monkeypatch.setattr(log, "propagate", False)  # as handlers of pytest raise

    @server.tool
    async def speak() -> None:
        log.info("%d", "no number")
        log.info("half a %s", "\ud83d")

    async with connect(server) as client:
        assert texts(await logged_by(client, "speak")) == ["half a \\ud83d"]
    assert "no number" in capsys.readouterr().err, "as other handlers do"


async def test_log_record_written_while_sending_is_not_sent(server, log, handler) -> None:
    class LoggingFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            log.info("formatting")
            return super().format(record)

    handler.setFormatter(LoggingFormatter())
    server.tool(lambda: log.info("once"), name="work")
    async with connect(server) as client:
        assert texts(await logged_by(client, "work")) == ["once"]


async def test_log_handler_without_declared_logging_warns_once(log, caplog) -> None:
    server = Server("s")
    server.tool(lambda: [log.error("one"), log.error("two")], name="work")
    async with connect(server) as client:
        await client.call_tool("work", log_level="debug")
        assert client.notifications == []
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("mcpkit")]
    assert "'archive.pages'" in warning
    assert 'capabilities={"logging"}' in warning


async def test_cancelled_call_sends_no_log_messages(server: Server, log: logging.Logger) -> None:
    started, gate, over = threading.Event(), threading.Event(), threading.Event()

    @server.tool
    def work() -> None:
        started.set()
        gate.wait(30)
        log.error("after the end")
        over.set()

    async with calling(server, "work") as (connection, sent):
        await until(started.is_set)
        connection.receive(CANCELLED)
        gate.set()
        await until(over.is_set)
        await settle()
    assert sent == []


LINE = "x" * 1000
COUNT = 2 * reporting.MAX_WAITING // len(LINE)
"""More lines than may wait."""


async def test_client_that_does_not_read_costs_bounded_memory_and_no_time(server, log, caplog) -> None:
    room, gate = asyncio.Event(), asyncio.Event()

    @server.tool
    async def work() -> None:
        for _ in range(COUNT):
            log.info(LINE)
        await gate.wait()

    async with calling(server, "work", ready=room.wait) as (connection, sent):
        await settle()
        assert sum(map(len, sent)) < reporting.MAX_UNREAD + 2 * len(LINE)
        room.set()
        await until(lambda: sum(map(len, sent)) > reporting.MAX_WAITING)
        gate.set()
        await connection.drain()
    assert sum(map(len, sent)) < reporting.MAX_WAITING * 1.2
    (warning,) = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert int(warning.split()[0]) == COUNT - (len(sent) - 1)


async def test_thread_that_logs_while_the_event_loop_is_busy_costs_bounded_memory(server, log) -> None:
    loop = asyncio.get_running_loop()

    @server.tool
    def work() -> None:
        with blocked_loop(loop):
            for _ in range(COUNT):
                log.info(LINE)

    async with calling(server, "work") as (connection, sent):
        await connection.drain()
    assert reporting.MAX_WAITING < sum(map(len, sent)) < reporting.MAX_WAITING * 1.2
    assert b'"result"' in sent[-1]


class Unreadable:
    """A value with a `repr` that raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class UnreadableMapping(dict[str, Any]):
    def items(self) -> Any:
        raise KeyError("items")


async def test_log_of_any_value_is_sent_and_the_call_has_its_result(server: Server, revision: str) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    values = [
        "caf\udce9", b"\xff", object(), Unreadable(), float("nan"), 10**5000, cycle, UnreadableMapping(a=1), deep,
        {(1,): Unreadable(), None: {1}}, (1, [2]), range(3),
    ]  # fmt: skip

    @server.tool
    async def log_all(ctx: Context) -> str:
        for value in values:
            await ctx.info(value, logger="caf\udce9")
        return "done"

    async with connect(server, protocol_version=revision) as client:
        assert len(await logged_by(client, "log_all")) == len(values)


# Progress


@each_row(("make", "options", "reports"), [
    (lambda: ["a", "b"], {}, [(0, 2), (1, 2), (2, 2)]), (lambda: {"a": 1}, {}, [(0, 1), (1, 1)]),
    (lambda: iter(["a"]), {}, [(0, None), (1, None)]), (lambda: iter(["a"]), {"total": 1}, [(0, 1), (1, 1)]),
    (lambda: ["a"], {"total": 4}, [(0, 4), (1, 4)]), (list, {}, [(0, 0)]),
])  # fmt: skip
async def test_track_reports_the_number_of_items_done(make, options, reports) -> None:
    server = Server("s")

    @server.tool
    async def in_loop(ctx: Context) -> list[str]:
        return [item async for item in ctx.track(make(), "Indexing", **options)]

    @server.tool
    def in_thread(ctx: Context) -> list[str]:
        return list(ctx.sync.track(make(), "Indexing", **options))

    async with connect(server) as client:
        for name in ("in_loop", "in_thread"):
            seen: list[Any] = []
            result = await client.call_tool(name, progress=lambda *report: seen.append(report))
            assert result.structured_content == list(make())
            assert seen == [(*report, "Indexing") for report in reports]


@pytest.mark.parametrize("is_tracked", [True, False])
@pytest.mark.parametrize("has_token", [True, False])
async def test_progress_reports_let_others_run_every_ten_milliseconds(is_tracked, has_token, server) -> None:
    clock, seen, turns = LoopClock(), [], [0]

    async def count_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def report(ctx: Context) -> AsyncIterator[int]:
        for number in range(100):
            await ctx.report_progress(number, 100)
            yield number

    @server.tool
    async def work(ctx: Context) -> None:
        others = asyncio.ensure_future(count_turns())
        async for _ in ctx.track(range(100)) if is_tracked else report(ctx):
            seen.append(turns[0])
            clock.ahead += 0.006
        others.cancel()

    async with connect(server) as client:
        await client.call_tool("work", progress=(lambda *report: None) if has_token else None)
    assert len(seen) == 100
    assert all(later > now for now, later in zip(seen, seen[3:], strict=False))
