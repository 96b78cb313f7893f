"""Log records of the author's, at the client of the request that they belong to."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextvars import Context as ContextVars
from contextvars import copy_context
from typing import Any

import pytest

from mcpkit import Context, LogHandler, Server, reporting
from mcpkit.connection import Connection
from mcpkit.testing import Client, connect
from wire.pipe import settle

pytestmark = pytest.mark.anyio

ERAS = ("2025-11-25", "2026-07-28")


@pytest.fixture
def handler() -> LogHandler:
    return LogHandler()


@pytest.fixture
def log(handler: LogHandler) -> Iterator[logging.Logger]:
    """The author's logger, with a handler that sends everything."""
    log = logging.getLogger("archive.pages")
    log.setLevel(1)
    log.addHandler(handler)
    yield log
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


@pytest.fixture
def server() -> Server:
    return Server("s", offers={"logging"})


async def heard(client: Client, name: str, level: str = "debug", **arguments: Any) -> list[dict[str, Any]]:
    """Call a tool, and return the params of the log messages that came before its result."""
    client.notifications.clear()
    if client.revision == "2026-07-28":
        await client.call(name, arguments, log_level=level)
    else:
        await client.request("logging/setLevel", {"level": level})
        await client.call(name, arguments)
    return [each["params"] for each in client.notifications if each["method"] == "notifications/message"]


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["data"] for message in messages]


# What is sent, and to whom


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

    async with connect(server, revision=revision) as client:
        messages = await heard(client, "in_loop" if is_async else "in_thread", page=3)
    assert messages == [{"level": "warning", "data": "page 3 is torn", "logger": "archive.pages"}]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_client_gets_what_is_as_severe_as_it_has_asked_for(
    server: Server, log: logging.Logger, revision: str
) -> None:
    @server.tool
    async def speak() -> str:
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
            log.log(level, "at %d", level)
        return ""

    async with connect(server, revision=revision) as client:
        assert texts(await heard(client, "speak", "error")) == ["at 40", "at 50"]
        assert texts(await heard(client, "speak", "debug")) == ["at 10", "at 20", "at 30", "at 40", "at 50"]
        client.notifications.clear()
        await client.call("speak")
        of_its_own_accord = [] if revision == "2026-07-28" else ["at 10", "at 20", "at 30", "at 40", "at 50"]
        assert [each["params"]["data"] for each in client.notifications] == of_its_own_accord


async def test_the_handler_has_a_level_of_its_own(
    server: Server, log: logging.Logger, handler: LogHandler
) -> None:
    handler.setLevel("ERROR")

    @server.tool
    async def speak() -> str:
        log.warning("careful")
        log.error("broken")
        return ""

    async with connect(server) as client:
        assert texts(await heard(client, "speak")) == ["broken"]


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


async def test_a_level_that_has_a_name_of_the_specifications_is_that(
    server: Server, log: logging.Logger
) -> None:
    logging.addLevelName(33, "NOTICE")
    try:

        @server.tool
        async def speak() -> str:
            log.log(33, "x")
            return ""

        async with connect(server) as client:
            assert [message["level"] for message in await heard(client, "speak")] == ["notice"]
    finally:
        logging.addLevelName(33, "Level 33")


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


@pytest.mark.parametrize("is_async", [True, False])
async def test_any_thread_that_has_the_context_of_the_request_may_log(
    server: Server, log: logging.Logger, is_async: bool
) -> None:
    @server.tool
    async def in_loop() -> str:
        await asyncio.to_thread(log.info, "from a thread")
        return ""

    @server.tool
    def in_thread() -> str:
        thread = threading.Thread(target=copy_context().run, args=(log.info, "from a thread"))
        thread.start()
        thread.join(10)
        return ""

    async with connect(server) as client:
        messages = await heard(client, "in_loop" if is_async else "in_thread")
    assert texts(messages) == ["from a thread"]


async def test_records_of_a_thread_come_in_their_order(server: Server, log: logging.Logger) -> None:
    @server.tool
    def speak(ctx: Context) -> str:
        for number in range(50):
            log.info("%d", number)
        ctx.sync.info("50")
        log.info("51")
        return ""

    async with connect(server) as client:
        assert texts(await heard(client, "speak")) == [str(number) for number in range(52)]


# What is not sent


async def test_what_belongs_to_no_request_is_dropped(server: Server, log: logging.Logger) -> None:
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
async def test_a_traceback_is_sent_only_when_that_is_asked_for(
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


# What must not go wrong


async def test_a_record_that_cannot_be_written_raises_nothing(
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


async def test_what_sending_leads_to_is_not_sent(
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


async def test_a_server_that_does_not_declare_logging_says_so_once(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool
    async def speak() -> str:
        log.error("one")
        log.error("two")
        return ""

    async with connect(server) as client:
        await client.call("speak", log_level="debug")
        assert client.notifications == []
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "mcpkit"]
    assert "'archive.pages'" in warning
    assert 'offers={"logging"}' in warning


async def test_a_client_that_does_not_read_costs_a_bounded_amount_and_no_time(
    server: Server, log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[bytes] = []
    room, gate = asyncio.Event(), asyncio.Event()
    line = "x" * 1000
    count = 2 * reporting.MOST_WAITING // len(line)

    @server.tool
    async def speak() -> str:
        for _ in range(count):
            log.info(line)
        await gate.wait()
        return ""

    connection = Connection(server, sent.append, ready=room.wait)
    async with server.running():
        connection.receive(_call("speak"))
        await settle()
        assert sum(map(len, sent)) < reporting.MOST_UNREAD + 2 * len(line)
        room.set()
        for _ in range(20):
            await settle()
        assert reporting.MOST_WAITING < sum(map(len, sent)) < reporting.MOST_WAITING * 1.2
        gate.set()
        await connection.drain()
        await connection.aclose()
    (warning,) = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert int(warning.split()[0]) == count - (len(sent) - 1)


async def test_a_client_that_never_reads_gets_what_waits_before_the_response(
    server: Server, log: logging.Logger
) -> None:
    sent: list[bytes] = []

    @server.tool
    async def speak() -> str:
        for _ in range(50):
            log.info("x" * 1000)
        return ""

    connection = Connection(server, sent.append, ready=asyncio.Event().wait)
    async with server.running():
        connection.receive(_call("speak"))
        await connection.drain()
        await connection.aclose()
    assert len(sent) == 51
    assert b'"result"' in sent[-1]


async def test_a_thread_that_logs_while_the_event_loop_is_busy_costs_a_bounded_amount(
    server: Server, log: logging.Logger
) -> None:
    sent: list[bytes] = []
    loop = asyncio.get_running_loop()
    is_blocked, is_done = threading.Event(), threading.Event()
    line = "x" * 1000
    count = 2 * reporting.MOST_WAITING // len(line)

    def block() -> None:
        is_blocked.set()
        assert is_done.wait(10)

    @server.tool
    def speak() -> str:
        loop.call_soon_threadsafe(block)
        assert is_blocked.wait(10)
        for _ in range(count):
            log.info(line)
        is_done.set()
        return ""

    connection = Connection(server, sent.append)
    async with server.running():
        connection.receive(_call("speak"))
        await connection.drain()
        await connection.aclose()
    assert reporting.MOST_WAITING < sum(map(len, sent)) < reporting.MOST_WAITING * 1.2
    assert b'"result"' in sent[-1]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_that_was_cancelled_says_nothing_more(
    server: Server, log: logging.Logger, is_async: bool
) -> None:
    sent: list[bytes] = []
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

    connection = Connection(server, sent.append)
    async with server.running():
        connection.receive(_call("in_loop" if is_async else "in_thread"))
        await asyncio.wait_for(started.wait(), 10)
        connection.receive(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
        gate.set()
        await asyncio.wait_for(over.wait(), 10)
        await settle()
        await connection.aclose()
    assert sent == []


async def test_what_a_thread_logs_at_the_moment_of_the_cancellation_is_dropped(
    server: Server, log: logging.Logger
) -> None:
    sent: list[bytes] = []
    loop = asyncio.get_running_loop()
    is_blocked, has_logged, over = threading.Event(), threading.Event(), asyncio.Event()

    @server.tool
    def work() -> str:
        loop.call_soon_threadsafe(cancel)
        assert is_blocked.wait(10)
        log.error("too late")
        has_logged.set()
        loop.call_soon_threadsafe(over.set)
        return ""

    connection = Connection(server, sent.append)

    def cancel() -> None:
        is_blocked.set()
        assert has_logged.wait(10)
        connection.receive(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')

    async with server.running():
        connection.receive(_call("work"))
        await asyncio.wait_for(over.wait(), 10)
        await settle()
        await connection.aclose()
    assert sent == []


async def test_a_function_that_goes_on_after_its_time_says_nothing_more(
    server: Server, log: logging.Logger
) -> None:
    @server.tool(timeout=0.01)
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            log.error("out of time")
        return ""

    async with connect(server) as client:
        assert await heard(client, "work") == []
        await settle()
        assert client.notifications == []


def _call(name: str) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","_meta":{'
        b'"io.modelcontextprotocol/logLevel":"debug",'
        b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{}}}}' % name.encode()
    )
