"""Streams end with their access token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from mcpkit import Context, Server
from mcpkit.transports.http.protection import leases
from mcpkit.transports.http.protection.leases import Leases
from tests.helpers.protected import listening, old_of, session_of
from tests.helpers.raw_client import Answer, Client, Serve
from tests.helpers.verified import Table, bearer
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ADA, LATER = bearer("ada"), bearer("ada/later")


SOON = 0.3


class SlowServer:
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
def slow(make: Callable[..., Server]) -> SlowServer:
    return SlowServer(make())


def held_in(client: Client) -> Leases:
    waiting = client.app.door()._begin().environment.leases
    assert waiting is not None
    return waiting


async def listen(client: Client, token: dict[str, str]) -> Answer:
    stream = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers=token)
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    return stream


async def test_stream_ends_with_its_token(slow: SlowServer, serve: Serve, table: Table) -> None:
    async with serve(slow.server) as client:
        session = await session_of(client, LATER)
        table.expires = time.time() + SOON
        ending = [await listening(session, ADA), await listen(client, ADA)]
        table.expires = None
        remaining = [await listening(session, LATER), await listen(client, LATER)]
        ended, result = [await each.messages() for each in ending]
        assert ended == []
        assert [each["result"]["resultType"] for each in result] == ["complete"]
        slow.server.tools.disable("whoami")
        for each in remaining:
            assert (await each.message())["method"] == "notifications/tools/list_changed"


@pytest.fixture
def short_lived(table: Table) -> Table:
    table.fresh = 0.05
    return table


async def test_token_of_streams_is_reverified_once(
    slow: SlowServer, serve: Serve, short_lived: Table
) -> None:
    async with serve(slow.server) as client:
        session = await session_of(client, ADA)
        streams = [await listening(session, ADA), *[await listen(client, ADA) for _ in range(5)]]
        assert len(held_in(client)._tokens) == 1  # and not one for each
        before = len(short_lived.asked)
        await until(lambda: len(short_lived.asked) >= before + 3)
        slow.server.tools.disable("whoami")
        for each in streams:
            assert (await each.message())["method"] == "notifications/tools/list_changed"
        short_lived.revoked.add("ada")
        for each in streams:
            assert [message.get("id") for message in await each.messages()] in ([], [1])


@pytest.mark.limit("stream whose access token nobody can verify again")
async def test_stream_survives_verifier_outage_for_grace_period(
    slow: SlowServer,
    serve: Serve,
    short_lived: Table,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(leases, "AGAIN", 0.02)
    async with serve(slow.server) as client:
        stream = await listening(await session_of(client, ADA), ADA)
        short_lived.is_down = True
        before = len(short_lived.asked)
        await until(lambda: len(short_lived.asked) > before + 3)
        short_lived.is_down = False
        before = len(short_lived.asked)
        await until(lambda: len(short_lived.asked) > before + 3)
        slow.server.tools.disable("whoami")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        monkeypatch.setattr(leases, "GRACE", 0.1)
        short_lived.is_down = True
        assert await stream.messages() == []
        assert "nobody can tell any more whether their access token holds" in caplog.text


def let_pass(client: Client, seconds: float) -> None:
    held_in(client)._clock = lambda: time.time() + seconds
    held_in(client)._look()


async def test_sse_stream_lasts_for_latest_token(slow: SlowServer, serve: Serve, table: Table) -> None:
    async with serve(slow.server) as client:
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
