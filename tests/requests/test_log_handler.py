"""Log records of the author's, at the client of the request that they belong to."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import Context as ContextVars
from typing import Any

import pytest

from mcpkit import Context, LogHandler, Server, ServerOptions
from mcpkit.calls import reports as reporting
from mcpkit.testing import connect
from tests.helpers.log_records import CANCELLED, author_log, calling, heard, texts
from tests.helpers.pipe import settle
from tests.helpers.waiting import LoopClock, kept_busy

pytestmark = pytest.mark.anyio


ERAS = ("2025-11-25", "2026-07-28")


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


async def test_log_handler_sends_a_record_of_a_call_to_the_client(server: Server) -> None:
    handler = LogHandler()

    @server.tool
    def work() -> None:
        handler.handle(
            logging.makeLogRecord({"name": "pages", "levelname": "ERROR", "levelno": 40, "msg": "torn"})
        )

    async with connect(server, protocol_version="2025-11-25") as client:
        messages = await heard(client, "work")
    assert messages == [{"level": "error", "data": "torn", "logger": "pages"}]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_record_is_sent_before_the_result(
    server: Server, log: logging.Logger, revision: str, is_async: bool
) -> None:
    @server.tool
    async def in_loop(page: int) -> str:
        log.warning("page %d is torn", page)
        return ""

    @server.tool
    def in_thread(page: int) -> str:
        log.warning("page %d is torn", page)
        return ""

    async with connect(server, protocol_version=revision) as client:
        messages = await heard(client, "in_loop" if is_async else "in_thread", page=3)
    assert messages == [{"level": "warning", "data": "page 3 is torn", "logger": "archive.pages"}]


@pytest.mark.parametrize("revision", ERAS)
async def test_log_records_below_the_requested_level_are_not_sent(
    server: Server, log: logging.Logger, revision: str
) -> None:
    @server.tool
    async def speak() -> str:
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
            log.log(level, "at %d", level)
        return ""

    async with connect(server, protocol_version=revision) as client:
        assert texts(await heard(client, "speak", "error")) == ["at 40", "at 50"]
        assert texts(await heard(client, "speak", "debug")) == ["at 10", "at 20", "at 30", "at 40", "at 50"]
        client.notifications.clear()
        await client.call_tool("speak")
        of_its_own_accord = [] if revision == "2026-07-28" else ["at 10", "at 20", "at 30", "at 40", "at 50"]
        assert [each["params"]["data"] for each in client.notifications] == of_its_own_accord


@pytest.mark.parametrize(
    ("number", "level"),
    [
        (5, "debug"),
        (10, "debug"),
        (19, "debug"),
        (20, "info"),
        (25, "notice"),
        (30, "warning"),
        (39, "warning"),
        (40, "error"),
        (50, "critical"),
        (60, "alert"),
        (70, "emergency"),
        (99, "emergency"),
    ],
)
async def test_numbers_become_the_levels_of_the_specification(
    server: Server, log: logging.Logger, number: int, level: str
) -> None:
    @server.tool
    async def speak() -> str:
        log.log(number, "x")
        return ""

    async with connect(server) as client:
        assert [message["level"] for message in await heard(client, "speak")] == [level]


async def test_requests_that_run_at_once_get_their_own(server: Server, log: logging.Logger) -> None:
    both = asyncio.Event()
    running: list[str] = []

    @server.tool
    async def speak(me: str) -> str:
        running.append(me)
        if len(running) == 2:
            both.set()
        await both.wait()
        log.info("I am %s", me)
        return ""

    async with connect(server) as one, connect(server) as other:
        answers = await asyncio.gather(heard(one, "speak", me="one"), heard(other, "speak", me="other"))
    assert [texts(messages) for messages in answers] == [["I am one"], ["I am other"]]


async def test_log_record_outside_a_request_is_dropped(server: Server, log: logging.Logger) -> None:
    gate = asyncio.Event()
    late: list[asyncio.Task[None]] = []

    async def go_on() -> None:
        await gate.wait()
        log.error("too late")

    @server.tool
    async def leave_something() -> str:
        late.append(asyncio.ensure_future(go_on()))
        thread = threading.Thread(target=ContextVars().run, args=(log.error, "of another context"))
        thread.start()
        thread.join(10)
        return ""

    log.error("outside")
    async with connect(server) as client:
        assert texts(await heard(client, "leave_something")) == []
        gate.set()
        await late[0]
        await settle()
        assert [each for each in client.notifications if "data" in each.get("params", {})] == []


async def test_the_librarys_own_records_are_not_sent(
    server: Server, handler: LogHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [*root.handlers, handler])

    @server.tool
    async def fail() -> str:
        logging.getLogger("mcpkit.something").error("inside")
        raise ValueError("a secret of the server's")

    async with connect(server) as client:
        client.notifications.clear()
        result = await client.request(
            "tools/call",
            {"name": "fail", "arguments": {}},
            log_level="debug",
        )
        assert result["isError"]
        assert client.notifications == []


@pytest.mark.parametrize("formatter", [None, logging.Formatter("%(levelname)s: %(message)s")])
async def test_traceback_is_sent_only_with_tracebacks_enabled(
    server: Server,
    log: logging.Logger,
    handler: LogHandler,
    formatter: logging.Formatter | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler.setFormatter(formatter)
    seen_elsewhere = _Kept()
    monkeypatch.setattr(
        log, "handlers", [seen_elsewhere, handler]
    )  # the first leaves the traceback in the record

    @server.tool
    async def fail() -> str:
        try:
            raise ValueError("inside")
        except ValueError:
            log.exception("failed", stack_info=True)
        return ""

    async with connect(server) as client:
        (text,) = texts(await heard(client, "fail"))
        assert text == ("failed" if formatter is None else "ERROR: failed")
        handler.with_tracebacks = True
        (text,) = texts(await heard(client, "fail"))
        assert "ValueError: inside" in text
        assert "Stack (most recent call last)" in text
    assert "ValueError: inside" in seen_elsewhere.texts[0], "others still see it"


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


async def test_log_record_that_cannot_be_formatted_raises_nothing(
    server: Server,
    log: logging.Logger,
    handler: LogHandler,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(log, "handlers", [handler])  # those of pytest raise

    @server.tool
    async def speak() -> str:
        log.info("%d", "no number")
        log.info("half a %s", "\ud83d")
        return "went on"

    async with connect(server) as client:
        assert texts(await heard(client, "speak")) == ["half a \\ud83d"]
    assert "no number" in capsys.readouterr().err, "as other handlers do"


async def test_log_record_written_while_sending_is_not_sent(
    server: Server, log: logging.Logger, handler: LogHandler
) -> None:
    @server.tool
    async def speak() -> str:
        log.info("once")
        return ""

    class Loud(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            log.info("formatting")
            return super().format(record)

    handler.setFormatter(Loud())
    async with connect(server) as client:
        assert texts(await heard(client, "speak")) == ["once"]


async def test_log_handler_without_declared_logging_warns_once(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool
    async def speak() -> str:
        log.error("one")
        log.error("two")
        return ""

    async with connect(server) as client:
        await client.call_tool("speak", log_level="debug")
        assert client.notifications == []
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("mcpkit")]
    assert "'archive.pages'" in warning
    assert 'capabilities={"logging"}' in warning


@pytest.mark.parametrize("is_async", [True, False])
async def test_cancelled_call_sends_no_more_log_messages(
    server: Server, log: logging.Logger, is_async: bool
) -> None:
    started, gate, over = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @server.tool
    async def in_loop() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.error("after the end")
            over.set()
        return ""

    @server.tool
    def in_thread() -> str:
        loop.call_soon_threadsafe(started.set)
        gate.wait(10)
        log.error("after the end")
        loop.call_soon_threadsafe(over.set)
        return ""

    async with calling(server, "in_loop" if is_async else "in_thread") as (connection, sent):
        await asyncio.wait_for(started.wait(), 10)
        connection.receive(CANCELLED)
        gate.set()
        await asyncio.wait_for(over.wait(), 10)
        await settle()
    assert sent == []


LINE = "x" * 1000


COUNT = 2 * reporting.MOST_WAITING // len(LINE)


"""How many of them are more than what may wait."""


async def test_a_client_that_does_not_read_costs_a_bounded_amount_and_no_time(
    server: Server, log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    room, gate = asyncio.Event(), asyncio.Event()

    @server.tool
    async def speak() -> str:
        for _ in range(COUNT):
            log.info(LINE)
        await gate.wait()
        return ""

    async with calling(server, "speak", ready=room.wait) as (connection, sent):
        await settle()
        assert sum(map(len, sent)) < reporting.MOST_UNREAD + 2 * len(LINE)
        room.set()
        for _ in range(20):
            await settle()
        assert reporting.MOST_WAITING < sum(map(len, sent)) < reporting.MOST_WAITING * 1.2
        gate.set()
        await connection.drain()
    (warning,) = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert int(warning.split()[0]) == COUNT - (len(sent) - 1)


async def test_a_thread_that_logs_while_the_event_loop_is_busy_costs_a_bounded_amount(
    server: Server, log: logging.Logger
) -> None:
    loop = asyncio.get_running_loop()

    @server.tool
    def speak() -> str:
        with kept_busy(loop):
            for _ in range(COUNT):
                log.info(LINE)
        return ""

    async with calling(server, "speak") as (connection, sent):
        await connection.drain()
    assert reporting.MOST_WAITING < sum(map(len, sent)) < reporting.MOST_WAITING * 1.2
    assert b'"result"' in sent[-1]


class Unreadable:
    """A value whose `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class UnreadableMapping(dict[str, Any]):
    def items(self) -> Any:
        raise KeyError("items")


@pytest.mark.parametrize("revision", ERAS)
async def test_log_of_any_value_is_sent_and_the_call_has_its_result(server: Server, revision: str) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    unusual = [
        "caf\udce9",
        b"\xff",
        object(),
        Unreadable(),
        float("nan"),
        10**5000,
        cycle,
        UnreadableMapping(a=1),
    ]
    values = [*unusual, deep, {(1,): Unreadable(), None: {1}}, (1, [2]), range(3)]

    @server.tool
    async def log_all(ctx: Context) -> str:
        for value in values:
            await ctx.info(value, logger="caf\udce9")
        return "done"

    async with connect(server, protocol_version=revision) as client:
        assert len(await heard(client, "log_all")) == len(values)


Reports = list[tuple[float, float | None, str | None]]


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        (lambda: ["a", "b"], {}, [(0, 2, "Indexing"), (1, 2, "Indexing"), (2, 2, "Indexing")]),
        (lambda: {"a": 1}, {}, [(0, 1, "Indexing"), (1, 1, "Indexing")]),
        (lambda: iter(["a"]), {}, [(0, None, "Indexing"), (1, None, "Indexing")]),
        (lambda: iter(["a"]), {"total": 1}, [(0, 1, "Indexing"), (1, 1, "Indexing")]),
        (lambda: ["a"], {"total": 4}, [(0, 4, "Indexing"), (1, 4, "Indexing")]),
        (list, {}, [(0, 0, "Indexing")]),
    ],
    ids=["list", "dict", "iterator", "iterator with a total", "list with another total", "nothing"],
)
async def test_track_reports_the_number_of_items_done(
    server: Server, items: Callable[[], Any], options: dict[str, Any], message: Reports
) -> None:
    @server.tool
    async def in_loop(ctx: Context) -> list[str]:
        return [item async for item in ctx.track(items(), "Indexing", **options)]

    @server.tool
    def in_thread(ctx: Context) -> list[str]:
        return list(ctx.sync.track(items(), "Indexing", **options))

    async with connect(server) as client:
        for name in ("in_loop", "in_thread"):
            seen: Reports = []
            result = await client.call_tool(name, progress=lambda *report: seen.append(report))
            assert result.structured_content == list(items())
            assert seen == message


async def test_track_of_a_value_that_is_not_iterable_is_refused(server: Server) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        with pytest.raises(TypeError, match="not iterable"):
            ctx.track(5)  # type: ignore[arg-type]  # the mistake
        return "refused"

    async with connect(server) as client:
        assert (await client.call_tool("work")).text == "refused"


ITEMS = 100


class Turns:
    """Counts the turns of the running event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self) -> None:
        self.count += 1
        self._handle = self._loop.call_soon(self._next)

    def stop(self) -> None:
        self._handle.cancel()


async def items() -> AsyncIterator[int]:
    for number in range(ITEMS):
        yield number


async def reported(ctx: Context, way: str) -> AsyncIterator[None]:
    """Report so many items in some way."""
    if way == "progress":
        for number in range(ITEMS):
            yield
            await ctx.report_progress(number, ITEMS)
    else:
        tracked: Any = items() if way == "track an async generator" else range(ITEMS)
        async for _ in ctx.track(tracked):
            yield


WAYS = pytest.mark.parametrize("way", ["progress", "track", "track an async generator"])


@pytest.mark.parametrize("revision", ERAS)
@WAYS
@pytest.mark.parametrize("is_asked", [True, False])
async def test_others_run_every_ten_milliseconds_of_work(way: str, is_asked: bool, revision: str) -> None:
    server, clock, seen = Server("s"), LoopClock(), []

    @server.tool
    async def work(ctx: Context) -> None:
        turns = Turns()
        async for _ in reported(ctx, way):
            seen.append(turns.count)
            clock.ahead += 0.006
        turns.stop()

    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("work", progress=(lambda *report: None) if is_asked else None)
    assert len(seen) == ITEMS
    assert all(later > now for now, later in zip(seen, seen[3:], strict=False))
