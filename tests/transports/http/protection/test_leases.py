"""Streams that listen end when the access token does by which they were opened; calls are answered all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.transports.http.protection import leases
from mcpkit.transports.http.protection.leases import Leases
from tests.helpers.asgi_answer import Answer
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.protected import listening, old_of, session_of, status_of
from tests.helpers.stateless_server import text_of
from tests.helpers.verified import Table, bearer
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ADA, LATER = bearer("ada"), bearer("ada/later")
SOON = 0.3
"""Seconds after which a token expires: the streams have been opened by then."""


class Place:
    """A server with a slow tool."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.released = asyncio.Event()
        self.started = asyncio.Event()

        @server.tool
        async def wait(ctx: Context) -> str:
            """Wait."""
            await ctx.progress(1, 2)
            self.started.set()
            await self.released.wait()
            return "waited"


@pytest.fixture
def place(make: Callable[..., Server]) -> Place:
    return Place(make())


def held_in(client: Client) -> Leases:
    """Return what holds the streams of an app."""
    held = client.app.door()._begin().environment.leases
    assert held is not None
    return held


def let_pass(client: Client, seconds: float) -> None:
    """Have streams believe that so much time has passed since now."""
    held_in(client)._clock = lambda: time.time() + seconds
    held_in(client)._look()


async def listen(client: Client, token: dict[str, str]) -> Answer:
    """Open a stream of the stateless era."""
    stream = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers=token)
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    return stream


async def test_streams_end_with_their_token_and_no_sooner(place: Place, serve: Serve, table: Table) -> None:
    async with serve(place.server) as client:
        session = await session_of(client, LATER)
        table.expires = time.time() + SOON
        ending = [await listening(session, ADA), await listen(client, ADA)]
        table.expires = None
        kept = [await listening(session, LATER), await listen(client, LATER)]
        ended, result = [await each.messages() for each in ending]
        assert ended == []
        assert [each["result"]["resultType"] for each in result] == ["complete"]
        place.server.tools.disable("whoami")
        for each in kept:
            assert (await each.message())["method"] == "notifications/tools/list_changed"


async def test_a_client_comes_back_with_its_next_token(place: Place, serve: Serve, table: Table) -> None:
    async with serve(place.server) as client:
        table.expires = time.time() + SOON
        session = await session_of(client, ADA)
        stream = await listening(session, ADA)
        primed = await stream.event()
        assert primed is not None
        assert await stream.messages() == []
        table.expires, table.revoked = None, {"ada"}
        assert await status_of(session, ADA) == 401
        again = await session.listen(primed.id, headers=LATER).head()
        place.server.tools.disable("whoami")
        assert (await again.message())["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("kind", ["stateless", "session"])
async def test_a_call_that_was_accepted_is_answered(
    place: Place, serve: Serve, table: Table, kind: str
) -> None:
    async with serve(place.server) as client:
        table.expires = time.time() + SOON
        session = await session_of(client, ADA)
        stream = await listening(session, ADA)
        call = session.call("wait", headers=ADA) if kind == "session" else client.call("wait", headers=ADA)
        await place.started.wait()
        assert await stream.messages() == []
        place.released.set()
        assert text_of(await call.response()) == "waited"


# HTTP with SSE, where the stream is the session


async def test_a_pipe_answers_what_runs_and_ends(place: Place, serve: Serve, table: Table) -> None:
    async with serve(place.server) as client:
        table.expires = time.time() + 3600
        old = await old_of(client, ADA)
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "wait"}}
        await old.post(call, ADA).whole()
        await place.started.wait()
        let_pass(client, 3601)
        place.released.set()
        [answer] = await old.stream.messages()
        assert answer["id"] == 7
        assert (await old.post(call, LATER).whole()).status == 404


async def test_a_pipe_lasts_as_long_as_the_latest_token(place: Place, serve: Serve, table: Table) -> None:
    async with serve(place.server) as client:
        table.expires = time.time() + 3600
        old = await old_of(client, ADA)
        table.expires += 3600
        await old.ask("ping", {}, LATER)
        table.expires -= 5400
        await old.ask("ping", {}, bearer("ada/sooner"))
        let_pass(client, 3601)
        assert "result" in await old.ask("ping", {}, LATER)
        let_pass(client, 7201)
        assert await old.stream.messages() == []


# Tokens whose provider has to be asked again


@pytest.fixture
def fresh(table: Table) -> Table:
    table.fresh = 0.05
    return table


async def test_a_token_is_verified_again_once_for_all_of_its_streams(
    place: Place, serve: Serve, fresh: Table
) -> None:
    async with serve(place.server) as client:
        session = await session_of(client, ADA)
        streams = [await listening(session, ADA), *[await listen(client, ADA) for _ in range(5)]]
        assert len(held_in(client)._tokens) == 1  # and not one for each
        before = len(fresh.asked)
        await until(lambda: len(fresh.asked) >= before + 3)
        place.server.tools.disable("whoami")
        for each in streams:
            assert (await each.message())["method"] == "notifications/tools/list_changed"
        fresh.revoked.add("ada")
        for each in streams:
            assert [message.get("id") for message in await each.messages()] in ([], [1])


async def test_a_token_that_grants_something_else_now_ends_its_streams(
    place: Place, serve: Serve, fresh: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(place.server) as client:
        stream = await listening(await session_of(client, ADA), ADA)
        verify = fresh.verify

        async def other(token: str, audience: str) -> Any:
            return await verify("ada.mail", audience)

        monkeypatch.setattr(fresh, "verify", other)
        assert await stream.messages() == []


@pytest.mark.limit("stream whose access token nobody can verify again")
async def test_while_nobody_can_tell_a_stream_goes_on_for_a_while(
    place: Place,
    serve: Serve,
    fresh: Table,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(leases, "AGAIN", 0.02)
    async with serve(place.server) as client:
        stream = await listening(await session_of(client, ADA), ADA)
        fresh.is_down = True
        before = len(fresh.asked)
        await until(lambda: len(fresh.asked) > before + 3)
        fresh.is_down = False
        before = len(fresh.asked)
        await until(lambda: len(fresh.asked) > before + 3)
        place.server.tools.disable("whoami")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        monkeypatch.setattr(leases, "GRACE", 0.1)
        fresh.is_down = True
        assert await stream.messages() == []
        assert "nobody can tell any more whether their access token holds" in caplog.text


async def test_nothing_is_asked_again_when_no_stream_is_open(
    place: Place, serve: Serve, fresh: Table
) -> None:
    async with serve(place.server) as client:
        session = await session_of(client, ADA)
        stream = await listening(session, ADA)
        stream.disconnect()
        await stream.whole()
        held = held_in(client)
        await until(lambda: not held._tokens and not held._wakes)
        asked = len(fresh.asked)
        assert held._timer is None
        assert len(fresh.asked) == asked


async def test_who_reconnects_all_the_time_leaves_nothing_behind(
    place: Place, serve: Serve, table: Table
) -> None:
    table.expires = time.time() + 3600
    async with serve(place.server) as client:
        session = await session_of(client, ADA)
        for _ in range(50):
            stream = await listening(session, ADA)
            stream.disconnect()
            await stream.whole()
        held = held_in(client)
        assert len(held._wakes) == len(held._tokens) == 1
