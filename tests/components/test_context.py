"""The Context: what a handler learns of its request (what it says is in wire/test_reports)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Context, Server, current_context
from mcpkit.protocol.revisions import ALL, STATELESS
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("s")


@pytest.mark.parametrize("revision", ALL)
async def test_it_tells_who_asks_what_and_how(server: Server, revision: str) -> None:
    seen: list[Context] = []

    @server.tool
    async def look(ctx: Context, x: int = 0) -> str:
        seen.append(ctx)
        return ""

    info = {"name": "tests", "version": "1.2"}
    async with connect(server, revision=revision, info=info, capabilities={"roots": {}}) as client:
        await client.request(
            "tools/call", {"name": "look", "arguments": {"x": 1}, "_meta": {"example.com/trace": "abc"}}
        )
    (ctx,) = seen
    assert ctx.method == "tools/call"
    assert ctx.params["arguments"] == {"x": 1}
    assert ctx.meta["example.com/trace"] == "abc"
    assert ctx.client.info == info
    assert (ctx.client.name, ctx.client.version) == ("tests", "1.2")
    assert ctx.client.capabilities == {"roots": {}}
    assert ctx.revision == revision
    assert ctx.era == ("stateless" if revision in STATELESS else "handshake")
    assert ctx.server is server
    assert ctx.state is None
    assert ctx.request_id == 2


@pytest.mark.parametrize("kind", ["async", "thread", "task"])
async def test_the_current_context_is_found_without_a_parameter(server: Server, kind: str) -> None:
    def deep() -> str:
        return f"{current_context().method} {current_context().params['name']}"

    async def deep_async() -> str:
        return deep()

    @server.tool(name="async")
    async def in_coroutine() -> str:
        return deep()

    @server.tool(name="thread")
    def in_thread() -> str:
        return deep()

    @server.tool(name="task")
    async def in_task() -> str:
        return await asyncio.create_task(deep_async())

    async with connect(server) as client:
        assert (await client.call(kind)).text == f"tools/call {kind}"


async def test_requests_that_run_at_once_have_their_own(server: Server) -> None:
    barrier = asyncio.Event()

    @server.tool
    async def mine(name: str) -> bool:
        before = current_context()
        if name == "last":
            barrier.set()
        await barrier.wait()
        return current_context() == before and before.params["arguments"]["name"] == name

    async with connect(server) as client:
        results = await asyncio.gather(*(client.call("mine", {"name": n}) for n in ("a", "b", "last")))
        assert [result.structured for result in results] == [True, True, True]


def test_outside_of_a_request_there_is_no_current_context() -> None:
    with pytest.raises(RuntimeError, match="from a handler"):
        current_context()


async def test_an_unknown_level_names_those_there_are(server: Server) -> None:
    @server.tool
    async def f(ctx: Context) -> str:
        with pytest.raises(ValueError, match="emergency"):
            await ctx.log("loud", "text")
        return "refused"

    async with connect(server) as client:
        assert (await client.call("f")).text == "refused"


LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


async def test_a_thread_logs_at_every_level(server: Server) -> None:
    @server.tool
    def f(ctx: Context) -> str:
        for level in LEVELS:
            getattr(ctx.sync, level)(level, logger="tests")
        return ""

    async with connect(server) as client:
        await client.call("f", log_level="debug")
        assert [message["params"] for message in client.notifications] == [
            {"level": level, "data": level, "logger": "tests"} for level in LEVELS
        ]


async def test_sync_reports_belong_into_threads(server: Server) -> None:
    @server.tool
    async def f(ctx: Context) -> str:
        with pytest.raises(RuntimeError, match="await"):
            ctx.sync.progress(1)
        return "refused"

    async with connect(server) as client:
        assert (await client.call("f")).text == "refused"


async def test_a_report_waits_until_the_reader_keeps_up(server: Server) -> None:
    import json

    from mcpkit.engine.connection import Connection

    said: list[str] = []
    keeps_up = asyncio.Event()

    @server.tool
    async def f(ctx: Context) -> str:
        await ctx.progress(1)
        said.append("after the first")
        return ""

    async def ready() -> None:
        await keeps_up.wait()

    async with server.running():
        sent: list[Any] = []
        connection = Connection(server, lambda line: sent.append(json.loads(line)), ready=ready)
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 1,
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f", "_meta": meta}}
        connection.receive(json.dumps(request).encode())
        for _ in range(10):
            await asyncio.sleep(0)
        assert [message.get("method") for message in sent] == ["notifications/progress"]
        assert said == []
        keeps_up.set()
        await connection.drain()
        assert said == ["after the first"]
        await connection.aclose()


async def test_logging_that_is_not_declared_says_how_to_declare_it() -> None:
    told: list[str] = []

    async def log() -> None:
        try:
            await current_context().info("hello")
        except RuntimeError as error:
            told.append(str(error))

    silent = Server("silent")
    silent.tool(log)
    async with connect(silent, revision="2025-11-25") as client:
        await client.call("log")
        assert client.notifications == []
    assert "does not declare logging" in told[0]

    outspoken = Server("outspoken", offers={"logging"})
    outspoken.tool(log)
    async with connect(outspoken, revision="2025-11-25") as client:
        await client.call("log")
        assert [message["params"]["data"] for message in client.notifications] == ["hello"]
