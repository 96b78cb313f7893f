"""Clients that come back for a stream that has nothing left to say.

The official clients do so after each call that they cancelled: its stream ends without a response, and they take that
for a lost connection. An empty event stream as the answer would bring them back again and again.
"""

from __future__ import annotations

import asyncio

import pytest

from mcpkit import Context, Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    server = Server("coming back")

    @server.tool
    async def hang(ctx: Context) -> None:
        """Say something, then wait to be cancelled."""
        await ctx.progress(1)
        await asyncio.Event().wait()

    @server.tool
    async def speak(ctx: Context) -> str:
        """Say something, then end."""
        await ctx.progress(1)
        return "done"

    return server


async def test_a_cancelled_call_brings_nobody_back(server: Server, serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("hang", id="long")
        priming = await call.event()
        progress = await call.event()
        await session.notify("notifications/cancelled", {"requestId": "long"})
        assert await call.event() is None
        refused = await session.listen(after=progress.id).whole()
        assert refused.status == 405
        assert refused.headers["allow"] == "POST, DELETE"
        assert [event.id for event in await events(session.listen(after=priming.id))] == [progress.id]


async def test_a_client_that_has_the_response_is_not_kept(server: Server, serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        *_, progress, response = await events(session.call("speak"))
        assert [event.id for event in await events(session.listen(after=progress.id))] == [response.id]
        assert (await session.listen(after=response.id).whole()).status == 405


async def events(answer) -> list:
    """Return all events until the end of the stream."""
    found = []
    while (event := await answer.event()) is not None:
        found.append(event)
    return found
