"""Progress and log messages of a handler: their limits, levels and order."""

import asyncio
from typing import Any

import pytest

from mcpkit import Context, Server, ToolError
from mcpkit.requests.progress_and_logging import BURST, INTERVAL
from tests.helpers.pipe import META, Pipe, Wire, settle

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


def reported(pipe: Pipe) -> list[Any]:
    """Return what has received: the numbers of progress notifications, and `answer` or `error` for a response."""
    received = []
    while not pipe.out.empty():
        message = pipe.out.get_nowait()
        if message.get("method") == "notifications/progress":
            received.append(message["params"]["progress"])
        elif "id" in message:
            received.append("error" if "error" in message or message["result"].get("isError") else "answer")
    return received


async def finished(pipe: Pipe) -> list[Any]:
    """Wait until all is answered, and return what has received."""
    await pipe.connection.drain()
    await settle()
    assert pipe.verdict is None
    return reported(pipe)


@pytest.mark.parametrize("outcome", ["answer", "error"])
@pytest.mark.usefixtures("clock")
@pytest.mark.limit("progress of a call")
async def test_progress_too_fast_sends_latest_before_response(wire, revision, outcome) -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 101):
            await ctx.report_progress(done)
        if outcome == "error":
            raise ToolError("no")
        return ""

    async with wire(server, revision) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        assert await finished(pipe) == [*AT_ONCE, 100, outcome]


async def test_delayed_progress_is_sent_after_interval(wire: Wire, clock: Clock) -> None:
    server = Server("s")
    gate, has_reported = asyncio.Event(), asyncio.Event()

    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(1, 14):
            await ctx.report_progress(done)
        has_reported.set()
        await gate.wait()
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        await has_reported.wait()
        assert reported(pipe)[-1:] == [BURST]
        await clock.advance(INTERVAL * 0.9)
        assert reported(pipe) == []
        await clock.advance(INTERVAL * 0.2)
        assert reported(pipe) == [13]
        await clock.advance(INTERVAL * 9)
        assert reported(pipe) == [], "it has been sent once"
        gate.set()
        assert await finished(pipe) == ["answer"]


LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@pytest.fixture
def report_server() -> Server:
    server = Server("s")

    @server.tool
    async def log_all(ctx: Context) -> str:
        await ctx.debug({"at": "debug"})
        await ctx.info("info")
        await ctx.log("notice", "notice")
        await ctx.warning("warning")
        await ctx.error("error")
        for level in LEVELS[5:]:
            await ctx.log(level, level, logger="tests")
        return "done"

    @server.tool
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1)
        await ctx.report_progress(2, 10, "two")
        for earlier in (2, 1.5, -3):  # which are not sent
            await ctx.report_progress(earlier)
        return "done"

    return server


def levels(messages: list[dict[str, Any]]) -> list[str]:
    logged = [each for each in messages if each.get("method") == "notifications/message"]
    return [each["params"]["level"] for each in logged]


async def test_session_log_level_applies_to_later_messages(report_server: Server, wire: Wire) -> None:
    async with wire(report_server) as pipe, wire(report_server) as other:
        pipe.start("tools/call", {"name": "log_all"})
        assert levels(await pipe.answered()) == LEVELS[1:], "the default is info"
        for level in LEVELS:
            pipe.start("logging/setLevel", {"level": level})
            pipe.start("tools/call", {"name": "log_all"})
            messages = await pipe.answered()
            assert levels(messages) == LEVELS[LEVELS.index(level) :]
            if level == "debug":
                data = [each["params"] for each in messages if "method" in each]
                assert data[0] == {"level": "debug", "data": {"at": "debug"}}
                assert data[7] == {"level": "emergency", "data": "emergency", "logger": "tests"}
        other.start("tools/call", {"name": "log_all"})
        assert levels(await other.answered()) == LEVELS[1:]
        for level in ("loud", "", "INFO", None, 3):
            error = await pipe.error("logging/setLevel", {"level": level})
            assert (error["code"], "emergency" in error["message"]) == (-32602, True), level
    server = Server("without a context")
    server.tool(lambda: "", name="plain")
    async with wire(server) as pipe:
        assert (await pipe.error("logging/setLevel", {"level": "info"}))["code"] == -32601


async def test_stateless_log_level_applies_to_its_request(report_server: Server, wire: Wire) -> None:
    async with wire(report_server, "2026-07-28") as pipe:
        for level in LEVELS:
            pipe.start("tools/call", {"name": "log_all"}, **{META + "logLevel": level})
            assert levels(await pipe.answered()) == LEVELS[LEVELS.index(level) :]
            pipe.start("tools/call", {"name": "log_all"})
            assert levels(await pipe.answered()) == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_progress_increases_and_has_its_token_and_members_of_the_version(report_server, wire, revision):
    async with wire(report_server, revision) as pipe:
        for token in ("text", 0, 7):
            pipe.start("tools/call", {"name": "work"}, progressToken=token)
            first, second, answer = await pipe.answered()
            assert first["params"] == {"progressToken": token, "progress": 1}
            expected = {"progressToken": token, "progress": 2, "total": 10}
            message = {"message": "two"} if revision > "2024-11-05" else {}
            assert second["params"] == expected | message
            assert "result" in answer
        pipe.start("tools/call", {"name": "work"})
        assert len(await pipe.answered()) == 1, "without a token"
