"""How a call ends that goes on alone: by itself, out of time, cancelled, with its server; and what does not end it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.middleware import CallNext, Detached, Request
from mcpkit.testing import Client, connect
from mcpkit.transports import Connection
from tests.helpers.pipe import stateless_meta
from tests.helpers.scripted_transport import Mailbox
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
CAN: dict[str, Any] = {"elicitation": {"form": {}}}


class Kitchen:
    """A server whose tool calls are answered at once, and go on.

    Attributes:
        begun: What goes on, each with what it has said.
        order: What has happened.
    """

    def __init__(self) -> None:
        self.server = Server("kitchen", lifespan=self.lifespan)
        self.begun: list[tuple[Detached, Any]] = []
        self.order: list[str] = []
        self.make: Any = Mailbox
        self.go = asyncio.Event()
        self.thread_go = threading.Event()
        self.server.tool(self.bake)
        self.server.tool(self.ask)
        self.server.tool(self.slow, timeout=0.01)
        self.server.tool(self.stoppable)

        @self.server.middleware("tools/call")
        async def detach(request: Any, call_next: CallNext) -> Any:
            mailbox = self.make(request)
            self.begun.append((request.detach(call_next, mailbox), mailbox))
            return {"content": []}

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[str]:
        yield "oven"
        self.order.append("lifespan left")

    async def bake(self, ctx: Context) -> str:
        self.order.append("begun")
        try:
            await ctx.progress(1, 2)
            await self.go.wait()
            await ctx.progress(2, 2)
        finally:
            await asyncio.sleep(0)
            self.order.append(f"ended in the {ctx.state}")
        return "baked"

    async def ask(self, ctx: Context) -> str:
        return str((await ctx.elicit("Sure?", bool)).action)

    async def slow(self) -> None:
        try:
            await self.go.wait()
        finally:
            self.order.append("stopped")

    def stoppable(self, ctx: Context) -> None:
        with ctx.sync.on_cancel(self.thread_go.set):
            self.order.append("in thread")
            assert self.thread_go.wait(10)
        self.order.append("thread stopped")

    async def begin(self, client: Client, name: str) -> tuple[Detached, Any]:
        """Begin a call that goes on."""
        meta = {"progressToken": "p"}
        await client.request("tools/call", {"name": name, "_meta": meta})
        return self.begun[-1]


# What does not end it


@BOTH
async def test_neither_its_client_nor_the_end_of_the_pipe_ends_it(revision: str) -> None:
    kitchen = Kitchen()
    said: list[bytes] = []
    async with kitchen.server.running():
        connection = Connection(kitchen.server, said.append)
        params: dict[str, Any] = {"name": "bake"}
        if revision == "2026-07-28":
            params["_meta"] = stateless_meta()
        else:
            hello = {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            connection.receive(
                json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode()
            )
        connection.receive(
            json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()
        )
        await connection.drain()
        assert json.loads(said[-1])["id"] == 7
        job, _ = kitchen.begun[0]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        connection.receive(json.dumps(cancel).encode())
        await connection.aclose(graceful=True)
        assert job.is_running
        kitchen.go.set()
        assert (await job.result())["content"][0]["text"] == "baked"
        assert len(said) == (1 if revision == "2026-07-28" else 2)


async def test_it_goes_on_while_anybody_serves() -> None:
    kitchen = Kitchen()
    async with kitchen.server.running():
        async with kitchen.server.running(), connect(kitchen.server) as client:
            job, _ = await kitchen.begin(client, "bake")
        assert job.is_running
        kitchen.go.set()
        await job.result()
    assert kitchen.order == ["begun", "ended in the oven", "lifespan left"]


# What ends it


@BOTH
async def test_it_ends_with_its_server_and_before_the_lifespan(revision: str) -> None:
    kitchen = Kitchen()
    async with connect(kitchen.server, revision=revision) as client:
        job, _ = await kitchen.begin(client, "bake")
        await until(lambda: kitchen.order)
        waiting = asyncio.ensure_future(job.result())
        await asyncio.sleep(0)
    assert kitchen.order == ["begun", "ended in the oven", "lifespan left"]
    assert not job.is_running
    for result in (waiting, job.result()):
        with pytest.raises(ProtocolError, match="The server has ended before the call was finished"):
            await result
    runtime = kitchen.server.engine.runtime
    assert (runtime.running.taken, len(runtime.detached)) == (0, 0)


async def test_it_ends_in_its_own_event_loop_alone() -> None:
    kitchen = Kitchen()

    def elsewhere() -> None:
        async def serve() -> None:
            async with connect(kitchen.server) as client:
                await kitchen.begin(client, "stoppable")
                await until(lambda: "in thread" in kitchen.order)

        asyncio.run(serve())

    async with connect(kitchen.server) as client:
        job, _ = await kitchen.begin(client, "bake")
        await asyncio.to_thread(elsewhere)
        await until(lambda: "thread stopped" in kitchen.order)
        assert job.is_running
        kitchen.go.set()
        await job.result()


@BOTH
async def test_its_time_is_over_as_that_of_any_call(revision: str) -> None:
    kitchen = Kitchen()
    async with connect(kitchen.server, revision=revision) as client:
        job, _ = await kitchen.begin(client, "slow")
        result = await job.result()
        assert result["isError"] is True
        assert "0.01 s" in result["content"][0]["text"]
        await until(lambda: kitchen.order == ["stopped"])


@BOTH
async def test_it_is_cancelled(revision: str) -> None:
    kitchen = Kitchen()
    async with connect(kitchen.server, revision=revision) as client:
        job, mailbox = await kitchen.begin(client, "bake")
        await until(lambda: mailbox.messages)
        waiting = asyncio.ensure_future(job.result())
        await asyncio.sleep(0)
        job.cancel()
        job.cancel()
        assert not job.is_running
        for result in (waiting, job.result()):
            with pytest.raises(asyncio.CancelledError):
                await result
        await until(lambda: "ended in the oven" in kitchen.order)
        assert [message["params"]["progress"] for message in mailbox.messages] == [1]
    assert kitchen.server.engine.runtime.running.taken == 0


async def test_one_that_is_cancelled_before_its_first_step_never_begins() -> None:
    kitchen = Kitchen()
    server = Server("s")

    @server.middleware("tools/call")
    async def detach(request: Any, call_next: CallNext) -> Any:
        job = request.detach(call_next, Mailbox(request))
        job.cancel()
        kitchen.begun.append((job, None))
        return {"content": []}

    server.tool(kitchen.bake)
    async with connect(server) as client:
        job, _ = await kitchen.begin(client, "bake")
        with pytest.raises(asyncio.CancelledError):
            await job.result()
        # Where tasks take their first step at once, it had begun.
        await until(lambda: kitchen.order in ([], ["begun", "ended in the None"]))
    assert server.engine.runtime.running.taken == 0


async def test_a_thread_of_it_is_stopped() -> None:
    kitchen = Kitchen()
    async with connect(kitchen.server) as client:
        job, _ = await kitchen.begin(client, "stoppable")
        await until(lambda: kitchen.order)
        job.cancel()
        await until(lambda: "thread stopped" in kitchen.order)


@BOTH
@pytest.mark.parametrize("end", ["cancel", "server"])
async def test_who_is_asked_hears_that_no_answer_is_needed(revision: str, end: str) -> None:
    kitchen = Kitchen()
    async with kitchen.server.running():
        async with connect(kitchen.server, revision=revision, capabilities=CAN) as client:
            job, mailbox = await kitchen.begin(client, "ask")
        await until(lambda: mailbox.messages)
        if end == "cancel":
            job.cancel()
            await until(lambda: len(mailbox.messages) > 1)
    asked, told = mailbox.messages
    assert told["method"] == "notifications/cancelled"
    assert told["params"]["requestId"] == asked["id"]
    assert len(mailbox.questions) == 0


# A channel that fails


class Broken(Mailbox):
    """Takes one message."""

    def send(self, message: bytes) -> None:
        if self.messages:
            raise OSError("the disk is full")
        super().send(message)


@BOTH
async def test_a_channel_that_raises_fails_what_the_function_says(revision: str) -> None:
    kitchen = Kitchen()
    kitchen.make = Broken
    async with connect(kitchen.server, revision=revision) as client:
        job, _ = await kitchen.begin(client, "bake")
        kitchen.go.set()
        result = await job.result()
    assert result["isError"] is True
    assert "disk" not in result["content"][0]["text"]
    assert "ended in the oven" in kitchen.order


@BOTH
async def test_it_ends_though_its_last_words_cannot_be_sent(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    kitchen = Kitchen()
    kitchen.make = Broken

    @kitchen.server.tool
    async def count(ctx: Context) -> str:
        for number in range(30):
            ctx.call.channel.messages.clear()  # type: ignore[attr-defined]
            await ctx.progress(number)
        ctx.call.channel.messages.append({})  # type: ignore[attr-defined]
        return "counted"

    async with connect(kitchen.server, revision=revision) as client:
        job, _ = await kitchen.begin(client, "count")
        with caplog.at_level(logging.ERROR, "mcpkit"):
            assert (await job.result())["content"][0]["text"] == "counted"
        assert "the last messages of a tools/call request could not be sent" in caplog.text
    assert kitchen.server.engine.runtime.running.taken == 0


async def test_a_channel_that_lacks_something_fails_the_request_alone() -> None:
    kitchen = Kitchen()

    def make(request: Request) -> Any:
        mailbox = Mailbox(request)  # type: ignore[arg-type]
        del mailbox.caller
        return mailbox

    kitchen.make = make
    async with connect(kitchen.server) as client:
        assert (await client.call("bake")).is_error
        kitchen.make = Mailbox
        kitchen.go.set()
        job, _ = await kitchen.begin(client, "bake")
        assert (await job.result())["content"][0]["text"] == "baked"
    assert kitchen.order[0] == "begun"
    assert len(kitchen.begun) == 1
