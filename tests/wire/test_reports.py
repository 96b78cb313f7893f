"""What a handler says before its result: log messages and progress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Context, Server
from tests.helpers.pipe import HANDSHAKE, META, settle
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool
    async def log_all(ctx: Context) -> str:
        await ctx.debug({"at": "debug"})
        await ctx.info("info")
        await ctx.notice("notice")
        await ctx.warning("warning")
        await ctx.error("error")
        await ctx.critical("critical")
        await ctx.alert("alert")
        await ctx.emergency("emergency", logger="tests")
        return "done"

    @server.tool
    async def work(ctx: Context) -> str:
        await ctx.progress(1)
        await ctx.progress(2, 10, "two")
        return "done"

    @server.tool
    def work_in_thread(ctx: Context) -> str:
        ctx.sync.progress(1, 2, "half")
        ctx.sync.warning("careful")
        return "done"

    return server


def levels(messages: list[dict[str, Any]]) -> list[str]:
    return [
        message["params"]["level"] for message in messages if message.get("method") == "notifications/message"
    ]


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_session_gets_messages_from_info_on_until_it_says_otherwise(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        pipe.start("tools/call", {"name": "log_all"})
        assert levels(await pipe.answered()) == LEVELS[1:]


@pytest.mark.parametrize("level", LEVELS)
async def test_set_level_applies_to_what_is_said_later(server: Server, wire: Wire, level: str) -> None:
    async with wire(server) as pipe:
        pipe.start("logging/setLevel", {"level": level})
        pipe.start("tools/call", {"name": "log_all"})
        assert levels(await pipe.answered()) == LEVELS[LEVELS.index(level) :]


@pytest.mark.parametrize("level", ["loud", "", "INFO", None, 3])
async def test_an_unknown_level_is_invalid(server: Server, wire: Wire, level: Any) -> None:
    async with wire(server) as pipe:
        error = await pipe.error("logging/setLevel", {"level": level})
        assert error["code"] == -32602
        assert "emergency" in error["message"]


async def test_the_level_belongs_to_one_session(server: Server, wire: Wire) -> None:
    async with wire(server) as quiet, wire(server) as other:
        await quiet.result("logging/setLevel", {"level": "emergency"})
        other.start("tools/call", {"name": "log_all"})
        assert levels(await other.answered()) == LEVELS[1:]


async def test_a_stateless_request_gets_no_messages_unless_it_asks(server: Server, wire: Wire) -> None:
    async with wire(server, "2026-07-28") as pipe:
        pipe.start("tools/call", {"name": "log_all"})
        assert levels(await pipe.answered()) == []


@pytest.mark.parametrize("level", LEVELS)
async def test_a_stateless_request_asks_for_itself_alone(server: Server, wire: Wire, level: str) -> None:
    async with wire(server, "2026-07-28") as pipe:
        pipe.start("tools/call", {"name": "log_all"}, **{META + "logLevel": level})
        assert levels(await pipe.answered()) == LEVELS[LEVELS.index(level) :]
        pipe.start("tools/call", {"name": "log_all"})
        assert levels(await pipe.answered()) == []


async def test_a_message_carries_any_data_and_the_name_of_its_logger(server: Server, wire: Wire) -> None:
    async with wire(server) as pipe:
        await pipe.result("logging/setLevel", {"level": "debug"})
        pipe.start("tools/call", {"name": "log_all"})
        messages = await pipe.answered()
        assert messages[0]["params"] == {"level": "debug", "data": {"at": "debug"}}
        assert messages[7]["params"] == {"level": "emergency", "data": "emergency", "logger": "tests"}


async def test_without_a_handler_that_takes_a_context_logging_is_not_declared(wire: Wire) -> None:
    server = Server("s")

    @server.tool
    async def plain() -> str:
        return ""

    async with wire(server) as pipe:
        assert (await pipe.error("logging/setLevel", {"level": "info"}))["code"] == -32601


@pytest.mark.parametrize("token", ["text", 0, 7])
async def test_progress_is_told_to_those_who_gave_a_token(
    server: Server, wire: Wire, revision: str, token: str | int
) -> None:
    async with wire(server, revision) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken=token)
        first, second, answer = await pipe.answered()
        assert first["params"] == {"progressToken": token, "progress": 1}
        expected = {"progressToken": token, "progress": 2, "total": 10}
        assert second["params"] == (expected | {"message": "two"} if revision > "2024-11-05" else expected)
        assert "result" in answer


async def test_without_a_token_no_progress_is_told(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        pipe.start("tools/call", {"name": "work"})
        assert len(await pipe.answered()) == 1


async def test_progress_only_increases(wire: Wire) -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> str:
        for done in (0, 1, 1, 0.5, -3, 2, 2.5):
            await ctx.progress(done)
        return ""

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "work"}, progressToken="p")
        *reports, _ = await pipe.answered()
        assert [report["params"]["progress"] for report in reports] == [0, 1, 2, 2.5]


async def test_functions_in_threads_report_too(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        pipe.start(
            "tools/call", {"name": "work_in_thread"}, progressToken="p", **{META + "logLevel": "debug"}
        )
        progress, message, answer = await pipe.answered()
        assert progress["params"]["total"] == 2
        assert message["params"] == {"level": "warning", "data": "careful"}
        assert answer["result"]["content"][0]["text"] == "done"


async def test_prompts_and_resources_report_too(wire: Wire) -> None:
    server = Server("s")

    @server.resource("data://x")
    async def x(ctx: Context) -> str:
        await ctx.progress(1)
        return "x"

    @server.prompt
    async def p(ctx: Context) -> str:
        await ctx.info("rendering")
        return "p"

    async with wire(server) as pipe:
        pipe.start("resources/read", {"uri": "data://x"}, progressToken="p")
        pipe.start("prompts/get", {"name": "p"})
        methods = [message.get("method") for message in await pipe.answered()]
        assert methods.count("notifications/progress") == 1
        assert methods.count("notifications/message") == 1


@pytest.mark.parametrize("report", ["progress", "info"])
async def test_nothing_can_be_said_after_the_answer(wire: Wire, report: str) -> None:
    server = Server("s")
    kept: list[Context] = []

    @server.tool
    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return ""

    async with wire(server) as pipe:
        await pipe.request("tools/call", {"name": "keep"}, progressToken="p")
        with pytest.raises(RuntimeError, match="tools/call request that has ended"):
            await getattr(kept[0], report)(1)
        await pipe.quiet()


async def test_nothing_can_be_said_after_a_cancellation_by_a_thread_that_goes_on(wire: Wire) -> None:
    import threading

    server = Server("s")
    started, gate = threading.Event(), threading.Event()
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    @server.tool
    def work(ctx: Context) -> str:
        started.set()
        gate.wait(10)
        try:
            ctx.sync.progress(1)
        except RuntimeError as error:
            loop.call_soon_threadsafe(outcome.set_result, str(error))
        return ""

    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "work"}, progressToken="p")
        await asyncio.to_thread(started.wait, 10)
        pipe.cancel(id_)
        gate.set()
        assert "ended" in await asyncio.wait_for(outcome, 10)
        await settle()
        await pipe.quiet()
