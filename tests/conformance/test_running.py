"""Requests that run: duplicate ids, cancellation and the cap (basic/utilities/cancellation)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mcpkit import Context, Server
from tests.conformance.conftest import Wire
from tests.helpers.pipe import settle

pytestmark = pytest.mark.anyio


class Stage:
    """What the handlers of the server wait for and tell."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.thread_started = threading.Event()
        self.thread_gate = threading.Event()
        self.events: list[str] = []


@pytest.fixture
async def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    server = Server("s")

    @server.tool
    async def wait() -> str:
        stage.started.set()
        try:
            await stage.gate.wait()
        except asyncio.CancelledError:
            stage.events.append("cancelled")
            raise
        return "waited"

    @server.tool
    async def stubborn(ctx: Context) -> str:
        stage.started.set()
        try:
            await stage.gate.wait()
        except asyncio.CancelledError:
            with pytest.raises(RuntimeError, match="ended"):
                await ctx.progress(1)
            stage.events.append("swallowed")
        return "an answer nobody waits for"

    @server.tool
    def block() -> str:
        stage.thread_started.set()
        stage.thread_gate.wait(10)
        stage.events.append("thread done")
        return "blocked"

    @server.tool
    async def echo(text: str) -> str:
        stage.events.append(text)
        return text

    return server


async def test_duplicate_id_is_rejected_and_first_call_continues(
    server: Server, stage: Stage, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        pipe.send(pipe.message("x", "tools/call", {"name": "wait"}))
        pipe.send(pipe.message("x", "tools/call", {"name": "echo", "arguments": {"text": "second"}}))
        refusal = await pipe.receive()
        assert refusal["error"]["code"] == -32600
        assert refusal.get("id") is None
        stage.gate.set()
        answer = await pipe.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == ("x", "waited")
        assert stage.events == []


@pytest.mark.parametrize(("tool", "events"), [("wait", "cancelled"), ("stubborn", "swallowed")])
async def test_cancelled_call_is_not_answered(
    tool: str, events: str, server: Server, stage: Stage, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        id_ = pipe.start("tools/call", {"name": tool})
        await stage.started.wait()
        pipe.cancel(id_)
        await pipe.quiet()
        assert stage.events == [events]
        assert server.engine.runtime.running.taken == 0


async def test_id_of_cancelled_call_can_be_used_again(server: Server, stage: Stage, wire: Wire) -> None:
    async with wire(server) as pipe:
        pipe.send(pipe.message("x", "tools/call", {"name": "stubborn"}))
        await stage.started.wait()
        pipe.cancel("x")
        pipe.send(pipe.message("x", "tools/call", {"name": "echo", "arguments": {"text": "again"}}))
        (answer,) = await pipe.answered()
        assert answer["result"]["content"][0]["text"] == "again"


async def test_requests_are_answered_as_they_finish(server: Server, stage: Stage, wire: Wire) -> None:
    async with wire(server) as pipe:
        slow = pipe.start("tools/call", {"name": "wait"})
        assert await pipe.text("echo", {"text": "fast"}) == "fast"
        stage.gate.set()
        assert (await pipe.receive())["id"] == slow


async def test_cancelled_handler_that_runs_on_is_counted(wire: Wire) -> None:
    server = Server("s", max_running=1)
    started, gate = asyncio.Event(), asyncio.Event()

    @server.tool
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await gate.wait()
        return ""

    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "stubborn"})
        await started.wait()
        pipe.cancel(id_)
        await settle()
        assert "error" in await pipe.request("tools/call", {"name": "stubborn"})
        gate.set()
        await settle()
        assert server.engine.runtime.running.taken == 0
