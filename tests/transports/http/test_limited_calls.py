"""Calls with a time limit over HTTP: their answers, and their end when the client hangs up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.stateless_server import LATER
from tests.helpers.waiting import until
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.fixture
def limited(work: Work) -> Server:
    """A server whose calls have a time limit, which only that of `brief` reaches."""
    server = Server("limited", timeout=LATER, stuck_threads=0)

    @server.tool
    async def wait() -> str:
        await work.wait()
        return "waited"

    @server.tool(timeout=0.02)
    def drip() -> Any:
        yield "first"
        work.released.wait(10)

    @server.tool(timeout=0.02)
    async def brief() -> None:
        await work.wait()

    @server.tool(timeout=0.02)
    def block() -> None:
        work.released.wait(10)

    return server


@pytest.mark.parametrize("stream_after", [0, LATER])
async def test_a_call_that_is_out_of_time_is_answered(
    stream_after: float, limited: Server, serve: Serve, work: Work
) -> None:
    async with serve(limited, stream_after=stream_after) as client:
        result = (await client.call("brief").response())["result"]
        assert result["isError"]
        assert result["content"][0]["text"] == "timed out after 0.02 s"
        await asyncio.wait_for(work.cancelled.wait(), 10)


async def test_a_call_that_is_out_of_time_is_answered_in_a_session(
    limited: Server, serve: Serve, work: Work
) -> None:
    async with serve(limited) as client:
        session = await client.initialize()
        assert await session.text("brief") == "timed out after 0.02 s"
        await asyncio.wait_for(work.cancelled.wait(), 10)


async def test_what_is_yielded_slowly_is_cut_off(limited: Server, serve: Serve, work: Work) -> None:
    async with serve(limited) as client:
        session = await client.initialize()
        assert await session.text("drip") == "timed out after 0.02 s"
        work.released.set()
        await until(lambda: not limited.engine.runtime.threads.given_up)
        work.released.clear()
        result = (await client.call("drip").response())["result"]
        assert result["content"][0]["text"] == "timed out after 0.02 s"
        work.released.set()


async def test_a_client_that_hangs_up_cancels_a_call_in_time(
    limited: Server, serve: Serve, work: Work
) -> None:
    async with serve(limited) as client:
        answer = client.call("wait")
        await work.started.wait()
        answer.disconnect()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await answer.whole()
    assert limited.engine.runtime.running.taken == 0


async def test_threads_that_are_stuck_are_a_reason_to_come_back_later(
    limited: Server, serve: Serve, work: Work
) -> None:
    async with serve(limited) as client:
        assert (await client.call("block").response())["result"]["isError"]
        refused = await client.call("block").whole()
        assert refused.status == 503
        assert "Too many worker threads are stuck" in refused.error()["message"]
        work.released.set()
        await until(lambda: not limited.engine.runtime.threads.given_up)
