"""Calls that end early: cancellation, disconnects, time limits and shutdown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.middleware import Detached
from tests.helpers.pipe import META
from tests.helpers.raw_client import LATER, Client, Serve, lifespan
from tests.helpers.scripted_transport import Mailbox
from tests.helpers.waiting import until
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("tool", ["wait", "log_then_wait"])
@pytest.mark.parametrize("stream_after", [0, LATER])
async def test_closed_stream_cancels_request(
    tool: str, stream_after: float, server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=stream_after) as client:
        answer = client.call(tool, meta={META + "logLevel": "debug"})
        await work.started.wait()
        if tool == "log_then_wait":
            await answer.message()
        answer.disconnect()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await answer.whole()
        assert b"".join(each.get("body", b"") for each in answer.late) == b""


async def test_cancelled_request_sends_nothing_more(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("log_after_cancellation", meta={META + "logLevel": "debug"}).head()
        await work.started.wait()
        answer.disconnect()
        await answer.whole()
        while work.failure is None:
            await asyncio.sleep(0)
        assert "has ended" in str(work.failure)
        assert answer.late == []


async def test_blocking_function_does_not_hold_cancelled_request(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("block").head()
        assert server.engine.runtime.running.taken == 1
        answer.disconnect()
        await answer.whole()
        while server.engine.runtime.running.taken:
            await asyncio.sleep(0)
        assert not work.released.is_set()


async def test_shutdown_during_call_is_503(server: Server, schema_dir: Path, work: Work) -> None:
    app = server.asgi(grace=0)
    async with lifespan(app):
        answer = Client(app, schema_dir).call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
    await answer.whole()
    assert answer.status == 503
    assert (answer.error()["code"], answer.json()["id"]) == (-32603, 1)


async def test_result_after_cancellation_is_dropped(serve: Serve) -> None:
    server = Server("s")
    begun, gate, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @server.tool
    async def stubborn() -> str:
        begun.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "late"

    async with serve(server) as client:
        answer = client.call("stubborn")
        await begun.wait()
        answer.disconnect()
        assert not ended.is_set()
        gate.set()
        await answer.whole()
        assert ended.is_set()
        assert [message.get("status") for message in answer.late] == [499, None]
        assert server.engine.runtime.running.taken == 0


class Jobs:
    def __init__(self, work: Work) -> None:
        self.server = Server("jobs")
        self.begun: list[tuple[Detached, Mailbox]] = []

        @self.server.middleware("tools/call")
        async def detach(request: Any, call_next: Any) -> Any:
            mailbox = Mailbox(request)
            self.begun.append((request.detach(call_next, mailbox), mailbox))
            return {"content": []}

        @self.server.tool
        async def bake(ctx: Context) -> str:
            await ctx.notify("notifications/jobs/begun")
            await work.wait()
            return f"baked for {ctx.headers['x-client']}"


@pytest.mark.parametrize(("revision", "stateless"), [("2025-11-25", False), ("2026-07-28", True)])
async def test_detached_call_outlives_client(
    revision: str, stateless: bool, serve: Serve, work: Work
) -> None:
    jobs = Jobs(work)
    async with serve(jobs.server, stateless=stateless) as client:
        if revision == "2026-07-28":
            answer = client.call("bake", headers={"x-client": "me"})
        else:
            session = await client.initialize(revision)
            message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "bake"}}
            answer = session.post(message, {"x-client": "me"})
        assert (await answer.whole()).json()["result"]["content"] == []
        assert answer.headers["content-type"] == "application/json"
        if revision != "2026-07-28" and not stateless:
            await session.notify("notifications/cancelled", {"requestId": 5})
            await session.delete()
        answer.disconnect()
        job, mailbox = jobs.begun[0]
        await until(lambda: mailbox.messages)
        assert job.is_running
        work.gate.set()
        assert (await job.result())["content"][0]["text"] == "baked for me"
        assert [message["method"] for message in mailbox.messages] == ["notifications/jobs/begun"]
