"""Requests that run: duplicate ids, cancellation and the cap (basic/utilities/cancellation)."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.transports import Connection
from tests.helpers.official import Official
from tests.helpers.pipe import settle, stateless_meta
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio


class Stage:
    """What the handlers of the server wait for and tell."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.thread_started = threading.Event()
        self.thread_gate = threading.Event()
        self.told: list[str] = []


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
            stage.told.append("cancelled")
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
            stage.told.append("swallowed")
        return "an answer nobody waits for"

    @server.tool
    def block() -> str:
        stage.thread_started.set()
        stage.thread_gate.wait(10)
        stage.told.append("thread done")
        return "blocked"

    @server.tool
    async def echo(text: str) -> str:
        stage.told.append(text)
        return text

    return server


async def test_a_duplicate_id_in_flight_is_refused_and_the_first_call_survives(
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
        assert stage.told == []


async def test_an_id_may_be_used_again_once_it_is_answered(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        for text in ("first", "second"):
            pipe.send(pipe.message("x", "tools/call", {"name": "echo", "arguments": {"text": text}}))
            assert (await pipe.receive())["result"]["content"][0]["text"] == text


async def test_a_number_and_its_text_are_two_ids(server: Server, stage: Stage, wire: Wire) -> None:
    async with wire(server) as pipe:
        pipe.send(pipe.message(7, "tools/call", {"name": "wait"}))
        pipe.send(pipe.message("7", "tools/call", {"name": "wait"}))
        stage.gate.set()
        assert [answer["id"] for answer in await pipe.answered()] == [7, "7"]


@pytest.mark.parametrize(("tool", "told"), [("wait", "cancelled"), ("stubborn", "swallowed")])
async def test_a_cancelled_call_is_never_answered_whether_its_handler_ends_or_swallows_it(
    tool: str, told: str, server: Server, stage: Stage, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        id_ = pipe.start("tools/call", {"name": tool})
        await stage.started.wait()
        pipe.cancel(id_)
        await pipe.quiet()
        assert stage.told == [told]
        assert server.engine.runtime.running.taken == 0


async def test_a_call_cancelled_before_its_first_step_never_runs_or_ends_at_once(
    server: Server, stage: Stage, wire: Wire
) -> None:
    async with wire(server) as pipe:
        pipe.cancel(pipe.start("tools/call", {"name": "wait"}))
        await pipe.quiet()
        assert stage.told in ([], ["cancelled"])  # the second where tasks start eagerly
        assert server.engine.runtime.running.taken == 0


async def test_a_cancelled_sync_function_is_left_alone_and_the_caller_is_free_at_once(
    server: Server, stage: Stage, wire: Wire
) -> None:
    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "block"})
        await asyncio.to_thread(stage.thread_started.wait, 10)
        pipe.cancel(id_)
        await pipe.quiet()  # drained, although the thread still blocks
        assert stage.told == []
        assert server.engine.runtime.running.taken == 0
        stage.thread_gate.set()
        assert await pipe.text("echo", {"text": "after"}) == "after"


async def test_the_id_of_a_cancelled_call_is_free_at_once(server: Server, stage: Stage, wire: Wire) -> None:
    async with wire(server) as pipe:
        pipe.send(pipe.message("x", "tools/call", {"name": "stubborn"}))
        await stage.started.wait()
        pipe.cancel("x")
        pipe.send(pipe.message("x", "tools/call", {"name": "echo", "arguments": {"text": "again"}}))
        (answer,) = await pipe.answered()
        assert answer["result"]["content"][0]["text"] == "again"


@pytest.mark.parametrize("params", [{"requestId": 99}, {"requestId": None}, {"requestId": [1]}, {}, [], None])
async def test_cancelling_what_does_not_run_is_ignored(server: Server, wire: Wire, params: object) -> None:
    async with wire(server) as pipe:
        pipe.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        await pipe.quiet()
        assert await pipe.result("ping") == {}


async def test_pings_and_cancellations_are_read_however_many_requests_run(
    server: Server, stage: Stage, wire: Wire
) -> None:
    async with wire(server) as pipe:
        ids = [pipe.start("tools/call", {"name": "wait"}) for _ in range(200)]
        assert await pipe.result("ping") == {}
        for id_ in ids[1:]:
            pipe.cancel(id_)
        stage.gate.set()
        assert [answer["id"] for answer in await pipe.answered()] == ids[:1]


async def test_requests_run_concurrently_and_leave_as_they_finish(
    server: Server, stage: Stage, wire: Wire
) -> None:
    async with wire(server) as pipe:
        slow = pipe.start("tools/call", {"name": "wait"})
        assert await pipe.text("echo", {"text": "fast"}) == "fast"
        stage.gate.set()
        assert (await pipe.receive())["id"] == slow


async def test_beyond_the_cap_requests_are_refused_and_those_that_run_go_on(wire: Wire) -> None:
    server = Server("s", max_running=2)
    gate = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "waited"

    async with wire(server) as pipe:
        first, second = (pipe.start("tools/call", {"name": "wait"}) for _ in range(2))
        error = await pipe.error("tools/call", {"name": "wait"})
        assert error["code"] == -32603
        assert "2" in error["message"]
        assert await pipe.result("ping") == {}
        gate.set()
        assert {answer["id"] for answer in await pipe.answered()} == {first, second}
        assert (await pipe.call("wait"))["content"][0]["text"] == "waited"


async def test_a_handler_that_lives_on_after_its_cancellation_still_counts(wire: Wire) -> None:
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


async def test_closing_the_connection_cancels_what_runs(server: Server, stage: Stage, wire: Wire) -> None:
    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "wait"})
        await stage.started.wait()
    assert stage.told == ["cancelled"]
    assert server.engine.runtime.running.taken == 0


async def test_draining_waits_for_what_has_been_received(server: Server, stage: Stage, wire: Wire) -> None:
    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "wait"})
        drained = asyncio.ensure_future(pipe.connection.drain())
        await settle()
        assert not drained.done()
        stage.gate.set()
        await drained
        assert pipe.out.qsize() == 1


async def test_another_exception_after_the_cancellation_is_not_answered(wire: Wire) -> None:
    server = Server("s")
    started = asyncio.Event()

    @server.tool
    async def fails() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("while cleaning up")
        return ""

    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "fails"})
        await started.wait()
        pipe.cancel(id_)
        await pipe.quiet()
        assert server.engine.runtime.running.taken == 0


async def test_a_handler_that_cancels_its_own_task_is_answered(wire: Wire, revision: str) -> None:
    server = Server("s")

    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    server.tool(give_up)
    server.resource("a://b")(give_up)
    async with wire(server, revision) as pipe:
        result = (await pipe.request("tools/call", {"name": "give_up"}))["result"]
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith("Internal error (ref ")
        error = (await pipe.request("resources/read", {"uri": "a://b"}))["error"]
        assert (error["code"], error["message"][:20]) == (-32603, "Internal error (ref ")
        assert server.engine.runtime.running.taken == 0


async def test_a_stateless_duplicate_leaves_the_id_out_whatever_the_session_speaks(
    server: Server, stage: Stage, schema_dir: Path
) -> None:
    sent: list[dict[str, Any]] = []
    connection = Connection(server, lambda message: sent.append(json.loads(message)))

    def send(id_: str, method: str, params: dict[str, Any]) -> None:
        connection.receive(
            json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode()
        )

    client = {"name": "wire", "version": "1"}
    send("i", "initialize", {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client})
    send("x", "tools/call", {"name": "wait"})
    send("x", "tools/call", {"name": "echo", "arguments": {"text": "second"}, "_meta": stateless_meta()})
    send("x", "tools/call", {"name": "echo", "arguments": {"text": "third"}})
    await connection.aclose()
    _, stateless, handshake = sent
    Official(schema_dir, "2026-07-28").error(stateless)
    assert "id" not in stateless
    assert handshake["id"] is None
