"""Streams of a session for what belongs to no call, and what is kept of all its streams."""

from __future__ import annotations

import asyncio

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.resumed import Steps, collect, make_server, message_of, priming, said, subscribe, uri_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(steps: Steps) -> Server:
    return make_server(steps)


async def test_each_message_comes_on_one_stream_only(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        uris = [str(number) for number in range(20)]
        await subscribe(session, *uris)
        streams = [session.listen() for _ in range(3)]
        for stream in streams:
            await priming(stream)
        for uri in uris:
            server.resource_updated(f"resumed://{uri}")
        found = await collect(streams, len(uris))
        assert sorted(uri_of(message) for message in found) == sorted(uris)


@pytest.mark.slow
async def test_another_stream_takes_over_when_one_is_lost(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "a")
        streams = [session.listen() for _ in range(3)]
        for stream in streams:
            await priming(stream)
        while streams:
            server.resource_updated("resumed://a")
            assert len(await collect(streams, 1)) == 1
            lost = streams.pop()
            lost.disconnect()
            await lost.whole()


async def test_what_changes_while_no_stream_is_open_is_told_once_when_there_is_one(
    server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "a", "b")
        for _ in range(3):
            server.resource_updated("resumed://a")
            server.resource_updated("resumed://b")
        server.tools.remove("tell")
        await session.ask("ping").whole()  # the changes have been heard
        stream = session.listen()
        methods = [(await stream.message())["method"].removeprefix("notifications/") for _ in range(3)]
        assert methods == ["resources/updated", "resources/updated", "tools/list_changed"]
        other = session.listen()
        await priming(other)
        assert stream.waiting() == other.waiting() == []


async def test_of_too_many_changes_none_is_lost(server: Server, serve: Serve) -> None:
    """The client is told of what it has subscribed to, where it cannot be told of each resource."""
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "{name}")
        for number in range(300):
            server.resource_updated(f"resumed://{number}")
        await subscribe(session, "rome")
        server.resource_updated("resumed://rome")
        server.tools.remove("tell")
        await session.ask("ping").whole()  # the changes have been heard
        stream = session.listen()
        found = [await stream.message() for _ in range(259)]
        assert stream.waiting() == []
        updated = [uri_of(message) for message in found if "params" in message]
        assert updated[:256] == [str(number) for number in range(256)]
        assert updated[256:] == ["{name}", "rome"]
        server.resource_updated("resumed://299")
        assert uri_of(await stream.message()) == "299"


async def test_what_changes_does_not_come_on_the_stream_of_a_call(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        stream = session.listen()
        await priming(stream)
        call = session.call("tell")
        await steps.take("one")
        server.tools.remove("count")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        await steps.take("end")
        assert said(await call.messages()) == ["one", "the end"]
        assert stream.waiting() == [], "and what belongs to a call comes on its stream alone"


# What is kept


@pytest.mark.parametrize(("times", "size"), [(1000, 10), pytest.param(40, 500_000, marks=pytest.mark.long)])
async def test_what_is_kept_is_bounded_and_its_latest_is_there(
    times: int, size: int, server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("count", {"times": times, "size": size})
        first = await priming(call)
        await call.whole()
        again = await session.listen(after=first.id).whole()
        *missed, response = again.waiting()
        assert len(missed) < min(times, 256)
        assert len(again.body) < 5 * 1024 * 1024
        assert said([message_of(response)]) == ["counted"]
        numbers = [int(message_of(event)["params"]["data"].split()[0]) for event in missed]
        assert numbers == list(range(times - len(missed), times)), "no gap but at the beginning"


async def test_a_stream_that_is_not_kept_any_more_is_refused(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        old = await session.call("count", {"times": 1}).whole()
        for _ in range(300):
            await session.call("count", {"times": 1}).whole()
        first, *_, last = old.waiting()
        for seen in (first, last):
            answer = await session.listen(after=seen.id).whole()
            assert answer.status == 400
            assert "send the request again, unless its answer has come" in answer.error()["message"]


async def test_a_stream_whose_events_are_not_kept_any_more_is_refused(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        old = await session.call("count", {"times": 1}).whole()
        await session.call("count", {"times": 300}).whole()
        first, *_, last = old.waiting()
        for _ in range(2):
            answer = await session.listen(after=first.id).whole()
            assert answer.status == 400
            assert "send the request again" in answer.error()["message"]
        assert (await session.listen(after=last.id).whole()).status == 405, (
            "who has it all has missed nothing"
        )


@pytest.mark.slow
async def test_streams_that_have_said_all_are_not_kept(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        for _ in range(600):
            await session.call("count", {"times": 1}).whole()
        assert len(client.app.door()._begin().sessions._by_id[session.id].streams) <= 257


@pytest.mark.slow
async def test_streams_that_were_left_are_not_kept(server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=1) as client:
        session = await client.initialize()
        for _ in range(600):
            stream = session.listen()
            await priming(stream)
            stream.disconnect()
            await stream.whole()
        service = client.app.door()._begin()
        assert len(service.sessions._by_id[session.id].streams) <= 257
        assert service.environment.streams.taken == 0


async def test_the_number_of_streams_is_capped(server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=1) as client:
        session = await client.initialize()
        first = await session.listen().head()
        assert (await session.listen().whole()).status == 503
        first.disconnect()
        await first.whole()
        assert (await session.listen().head()).status == 200


async def test_a_get_that_is_cancelled_at_once_leaves_nothing(server: Server, serve: Serve) -> None:
    """Middleware may cancel a request in any turn of the loop."""
    async with serve(server) as client:
        session = await client.initialize()
        streams = client.app.door()._begin().environment.streams
        for turns in range(6):
            stream = session.listen()
            client.opened.remove(stream)
            for _ in range(turns):
                await asyncio.sleep(0)
            stream.task.cancel()
            await asyncio.wait({stream.task})
            assert streams.taken == 0
        assert not client.app.door()._begin().sessions._by_id[session.id or ""].is_busy
