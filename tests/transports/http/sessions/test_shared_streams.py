"""Streams of one session in several processes: each message goes to the newest of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.asgi_client import Client, Serve, Session, initialize, lifespan
from tests.helpers.shared_memory import Shared, listen, make_server, next_town, settle, subscribe, two_places

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker() -> Shared:
    return Shared()


async def test_the_newest_stream_is_told_and_no_other(broker: Shared, serve: Serve) -> None:
    """Each message goes to one of the streams that are connected (basic/transports, "Multiple Connections")."""
    servers = [make_server(broker), make_server(broker)]
    async with serve(servers[0]) as here, serve(servers[1]) as there:
        session = await here.initialize()
        for town in ("oslo", "rome", "bern"):
            await subscribe(session, town)
        old = await listen(session)
        new = await listen(session.at(there))
        await settle(old)
        servers[0].resource_updated("weather://oslo")  # the other process hears of it
        assert await next_town(new) == "oslo"
        await settle(old)
        newest = await listen(session)
        await settle(new)
        servers[0].resource_updated("weather://rome")
        assert await next_town(newest) == "rome"
        newest.disconnect()
        await newest.whole()
        await settle(new)
        servers[0].resource_updated("weather://bern")
        assert await next_town(old) == "bern"
        await settle(new)
        assert b"oslo" not in old.body
        assert b"rome" not in old.body + new.body
        assert b"bern" not in new.body
        await here.aclose()


async def test_one_of_those_that_are_left_is_told_when_the_newest_is_lost(
    broker: Shared, serve: Serve
) -> None:
    servers = [make_server(broker) for _ in range(3)]
    async with serve(servers[0]) as one, serve(servers[1]) as two, serve(servers[2]) as three:
        session = await one.initialize()
        await subscribe(session, "oslo")
        left = [await listen(session), await listen(session.at(two))]
        newest = await listen(session.at(three))
        await settle(left[0])
        newest.disconnect()
        await newest.whole()
        await settle(left[0])
        servers[0].resource_updated("weather://oslo")
        await settle(left[0])
        assert sum(stream.body.count(b"weather://oslo") for stream in left) == 1
        for client in (one, two):
            await client.aclose()


async def test_a_stream_is_told_again_when_the_process_of_the_newer_one_ends(
    broker: Shared, serve: Serve, schema_dir: Path
) -> None:
    server = make_server(broker)
    async with serve(server) as here:
        session = await here.initialize()
        await subscribe(session, "oslo")
        old = await listen(session)
        app = make_server(broker).asgi(grace=0)
        async with lifespan(app):
            new = await listen(session.at(Client(app, schema_dir)))
            await settle(old)
        await new.whole()
        await settle(old)
        server.resource_updated("weather://oslo")
        assert await next_town(old) == "oslo"


async def test_what_changes_while_no_stream_is_open_is_told_whoever_was_told_before(
    broker: Shared, serve: Serve
) -> None:
    async with two_places(serve, broker) as (server, here, there):
        await subscribe(here, "oslo")
        stream = await listen(there)
        stream.disconnect()
        await stream.whole()
        server.resource_updated("weather://oslo")
        await here.ask("ping").whole()
        assert await next_town(await listen(here)) == "oslo"


async def test_a_session_whose_client_says_elsewhere_that_it_is_ready_is_told(
    broker: Shared, serve: Serve
) -> None:
    async with two_places(serve, broker) as (server, here, there):
        message = initialize()
        opened = await here.client.post(message, judge=here.judge).whole()
        session = Session(here.client, here.revision, opened.headers["mcp-session-id"], here.judge)
        assert (await session.at(there.client).notify("notifications/initialized")).status == 202
        stream = await session.listen().head()
        await subscribe(session, "oslo")
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"
