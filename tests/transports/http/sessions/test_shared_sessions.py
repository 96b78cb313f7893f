"""A session that is served in two places at once hears in each what it was told in the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mcpkit import Memory
from tests.helpers.asgi_client import Serve, Session
from tests.helpers.shared_memory import (
    Shared,
    listen,
    make_server,
    next_town,
    say_changed,
    settle,
    subscribe,
    two_places,
)
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker() -> Shared:
    return Shared()


async def test_a_stream_hears_of_what_is_subscribed_to_elsewhere(broker: Shared, serve: Serve) -> None:
    async with two_places(serve, broker) as (server, here, there):
        stream = await listen(here)
        await subscribe(there, "oslo")
        await settle(stream)
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"


async def test_a_stream_hears_no_more_of_what_is_unsubscribed_from_elsewhere(
    broker: Shared, serve: Serve
) -> None:
    async with two_places(serve, broker) as (server, here, there):
        await subscribe(here, "oslo")
        await subscribe(here, "rome")
        stream = await listen(here)
        await subscribe(there, "oslo", "unsubscribe")
        await settle(stream)
        server.resource_updated("weather://oslo")
        server.resource_updated("weather://rome")
        assert await next_town(stream) == "rome"


async def test_a_session_that_is_deleted_elsewhere_ends_here(
    broker: Shared, serve: Serve, work: Work
) -> None:
    async with serve(make_server(broker, work)) as here, serve(make_server(broker)) as there:
        session = await here.initialize()
        streams = [await listen(session), await listen(session)]
        call = session.call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
        assert (await session.at(there).delete()).status == 204
        for stream in streams:
            assert await stream.messages() == []
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await call.whole()
        assert len(here.app.door()._begin().sessions) == 0


async def test_a_session_from_elsewhere_that_is_deleted_there_ends_here(serve: Serve) -> None:
    """The broker here is not that session's home, and yet the one that is shared."""
    first = Shared()
    shared = Shared()
    async with serve(make_server(first)) as before:
        session = await before.initialize()
    async with serve(make_server(shared)) as here, serve(make_server(shared)) as there:
        stream = await listen(session.at(here))
        assert (await session.at(there).delete()).status == 204
        assert await stream.messages() == []
        assert (await session.at(here).ask("ping").whole()).status == 404


async def test_another_thread_is_elsewhere_too(serve: Serve) -> None:
    broker = Memory()
    server = make_server(broker)
    async with serve(server) as here:
        session = await here.initialize()
        stream = await listen(session)

        async def in_another_loop(does: Callable[[Session], Awaitable[object]]) -> None:
            async with serve(make_server(broker)) as there:
                await does(session.at(there))

        await asyncio.to_thread(asyncio.run, in_another_loop(lambda session: subscribe(session, "oslo")))
        await settle(stream)
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"
        await asyncio.to_thread(asyncio.run, in_another_loop(lambda session: session.delete()))
        assert await stream.messages() == []


async def test_all_sessions_are_followed_by_one_topic(broker: Shared, serve: Serve) -> None:
    async with serve(make_server(broker)) as client:
        assert broker.followed == 0
        session, other = await client.initialize(), await client.initialize()
        await listen(session)
        assert broker.followed == 1
        assert (await other.delete()).status == 204
        assert broker.followed == 1
        assert (await session.delete()).status == 204
        assert broker.followed == 0
        await client.initialize()
        assert broker.followed == 1
    assert broker.followed == 0
    assert broker._listeners == {}


async def test_what_is_subscribed_to_at_the_same_time_is_all_told(broker: Shared, serve: Serve) -> None:
    """A record that was asked for before a change made here was written says nothing of that change."""
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        broker.gate.clear()
        asked = [
            session.ask("resources/subscribe", {"uri": f"weather://{town}"}) for town in ("oslo", "rome")
        ]
        await asyncio.sleep(0)
        broker.gate.set()
        for answer in asked:
            assert (await answer.whole()).status == 200
        server.resource_updated("weather://oslo")
        server.resource_updated("weather://rome")
        stream = await listen(session)
        assert [await next_town(stream), await next_town(stream)] == ["oslo", "rome"]


async def test_what_is_being_written_is_not_taken_for_missing(broker: Shared, serve: Serve) -> None:
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        broker.lock.clear()
        asked = session.ask("resources/subscribe", {"uri": "weather://oslo"})
        assert (await session.ask("ping").whole()).status == 200
        broker.lock.set()
        assert (await asked.whole()).status == 200
        server.resource_updated("weather://oslo")
        assert await next_town(await listen(session)) == "oslo"


async def test_what_happens_during_a_look_at_the_store_is_looked_at_too(broker: Shared, serve: Serve) -> None:
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        stream = await listen(session)
        record = client.app.door()._begin().sessions._by_id[session.id].record
        broker.gate.clear()
        await say_changed(broker, record)
        await settle(stream)
        await broker.write(record.key, {"uri:weather://oslo": "1"}, 60)
        await say_changed(broker, record)
        await settle(stream)
        broker.gate.set()
        await settle(stream)
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"


async def test_a_session_that_ends_while_it_is_looked_for_leaves_nothing(
    broker: Shared, serve: Serve
) -> None:
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        service = client.app.door()._begin()
        live = service.sessions._by_id[session.id]
        await broker.write(live.record.key, {"uri:weather://oslo": "1"}, 60)  # as another process does
        broker.gate.clear()
        answer = session.ask("ping")
        await settle(answer)
        await service.sessions.end(live)
        broker.gate.set()
        assert (await answer.whole()).status == 404
        assert service.environment.changes._wants == {}
