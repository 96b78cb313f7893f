"""Stateless requests that are cut off: by a client that closes its stream, and by the end of the server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Client, Serve, lifespan
from tests.helpers.pipe import META
from tests.helpers.stateless_server import LATER
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("tool", ["wait", "speak"])
@pytest.mark.parametrize("stream_after", [0, LATER])
async def test_closing_the_stream_cancels_the_request(
    tool: str, stream_after: float, server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=stream_after) as client:
        answer = client.call(tool, meta={META + "logLevel": "debug"})
        await work.started.wait()
        if tool == "speak":
            await answer.message()
        answer.disconnect()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await answer.whole()
        assert b"".join(each.get("body", b"") for each in answer.late) == b""


async def test_nothing_more_is_said_for_a_request_that_is_cancelled(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("babble", meta={META + "logLevel": "debug"}).head()
        await work.started.wait()
        answer.disconnect()
        await answer.whole()
        while work.failure is None:
            await asyncio.sleep(0)
        assert "has ended" in str(work.failure)
        assert answer.late == []


async def test_a_function_that_blocks_does_not_hold_a_request_that_is_cancelled(
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


async def test_a_client_that_is_gone_before_it_was_served_leaves_nothing(
    server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        for name in ("wait", "echo", "report", "block"):
            answer = client.call(name, {"text": "x"} if name == "echo" else None, meta={"progressToken": 1})
            answer.disconnect()
            await answer.whole()


async def test_a_server_that_raises_for_a_client_that_is_gone_is_understood(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("wait").head()
        answer.failure = ConnectionResetError("gone")
        work.gate.set()
        await answer.whole()


async def test_a_call_that_the_end_of_the_server_cuts_off_is_told_so(
    server: Server, schema_dir: Path, work: Work
) -> None:
    app = server.asgi(grace=0)
    async with lifespan(app):
        answer = Client(app, schema_dir).call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
    await answer.whole()
    assert answer.status == 503
    assert (answer.error()["code"], answer.json()["id"]) == (-32603, 1)
