"""Streams that clients take up in another process than the one that they left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpkit import Memory, Server, Sqlite
from mcpkit.state.presence import MISSED
from tests.helpers.asgi_client import Answer, Client, Serve, Session, lifespan
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.resumed import Steps, make_server, priming, said, subscribe, uri_of
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


class Places(NamedTuple):
    """A session, as three processes know it, and the servers there."""

    here: Session
    there: Session
    third: Session
    servers: list[Server]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory | Sqlite]:
    made = make_engine(request.param, tmp_path)
    yield made
    close(made)


@asynccontextmanager
async def three(serve: Serve, engine: Memory | Sqlite, steps: Steps, **options: Any) -> AsyncIterator[Places]:
    async with AsyncExitStack() as stack:
        servers = [make_server(steps, engine) for _ in range(3)]
        clients = [await stack.enter_async_context(serve(server, **options)) for server in servers]
        before = asyncio.all_tasks()
        session = await clients[0].initialize()
        yield Places(session, session.at(clients[1]), session.at(clients[2]), servers)
        for client in clients:
            await client.aclose()
        await until(lambda: asyncio.all_tasks() <= before)  # what is told of the end of streams has been told


def environment(client: Client) -> Any:
    return client.app.door()._begin().environment


async def gone(answer: Answer) -> None:
    answer.disconnect()
    await answer.whole()


async def written(engine: Memory | Sqlite, session: Session, sent: int) -> None:
    """Wait until so much of a stream is in the store."""
    journal = environment(session.client).journal
    while journal._dirty or journal._task is not None:
        await asyncio.sleep(0.001)


@pytest.mark.slow
async def test_what_was_missed_comes_in_another_process(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = places.here.call("tell")
        await steps.take("one")
        first = await priming(call)
        await call.event()
        await gone(call)
        await steps.take("two", "three", "end")
        for session in (places.there, places.third, places.here):
            again = session.listen(after=first.id)
            assert said(await again.messages()) == ["one", "two", "three", "the end"]


async def test_each_event_comes_once_with_its_id_wherever_it_comes(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = await places.here.call("count", {"times": 4}).whole()
        first, *rest = call.waiting()
        again = await places.there.listen(after=first.id).whole()
        assert again.waiting() == rest
        again = await places.there.listen(after=rest[1].id).whole()
        assert again.waiting() == rest[2:]


async def test_a_call_that_goes_on_is_heard_to_its_end_in_another_process(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = places.here.call("tell")
        await steps.take("one")
        await priming(call)
        seen = await call.event()
        assert seen is not None
        await gone(call)
        back = places.there.listen(after=seen.id)
        await steps.take("two")
        assert said([await back.message()]) == ["two"]
        await steps.take("three")
        assert said([await back.message()]) == ["three"]
        await steps.take("end")
        assert said(await back.messages()) == ["the end"]


@pytest.mark.slow
async def test_the_connection_that_stands_is_left_for_the_new_one(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = places.here.call("tell")
        await steps.take("one")
        first = await priming(call)
        back = places.there.listen(after=first.id)
        assert said([await back.message()]) == ["one"]
        assert said(await call.messages()) == ["one"], "it ends"
        await steps.take("two")
        assert said([await back.message()]) == ["two"]
        third = places.third.listen(after=first.id)
        assert said([await third.message() for _ in range(2)]) == ["one", "two"]
        assert await back.messages() == [], "and so does this one"
        home = places.here.listen(after=first.id)
        assert said([await home.message() for _ in range(2)]) == ["one", "two"]
        assert await third.messages() == []
        await steps.take("end")
        assert said(await home.messages()) == ["the end"]


async def test_a_tool_ends_the_connection_and_its_client_comes_back_elsewhere(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = places.here.call("tell")
        await steps.take("close")
        first = await priming(call)
        assert await call.messages() == []
        back = places.there.listen(after=first.id)
        await steps.take("one", "end")
        assert said(await back.messages()) == ["one", "the end"]


async def test_many_large_events_come_whole(engine: Memory | Sqlite, serve: Serve, steps: Steps) -> None:
    async with three(serve, engine, steps) as places:
        call = places.here.call("count", {"times": 60, "size": 3000})
        first = await priming(call)
        expected = await call.messages()
        assert len(expected) == 61
        assert await places.there.listen(after=first.id).messages() == expected


async def test_who_has_all_is_told_that_there_is_no_more(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = await places.here.call("count", {"times": 1}).whole()
        last = call.waiting()[-1]
        await written(engine, places.here, 2)
        answer = await places.there.listen(after=last.id).whole()
        assert (answer.status, answer.body) == (405, b"")


@pytest.mark.slow
@pytest.mark.parametrize("id_", ["00000000c1-0", "00000000c1-7"])
async def test_a_call_that_nobody_knows_is_refused(
    id_: str, engine: Memory | Sqlite, serve: Serve, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.transports.http.sessions.relay._PATIENCE", 0.01)
    async with three(serve, engine, steps) as places:
        answer = await places.there.listen(after=id_).whole()
        assert answer.status == 400
        assert "send the request again" in answer.error()["message"]
        assert places.there.client.app.door()._begin().sessions._by_id[places.here.id].relays == {}


async def test_a_call_of_a_process_that_has_died_ends_in_an_error(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = places.here.call("tell", id="lost")
        await steps.take("one")
        first = await priming(call)
        await written(engine, places.here, 1)
        back = places.there.listen(after=first.id)
        assert said([await back.message()]) == ["one"]
        die(places.here, environment(places.there.client).presence)
        last = await back.message()
        assert (last["id"], last["error"]["code"]) == ("lost", -32603)
        assert "has ended" in last["error"]["message"]
        assert "may or may not have happened" in last["error"]["message"]
        assert await back.message() is None
        assert [last] == (await places.third.listen(after=first.id).messages())[1:], "wherever one asks"
        await steps.take("two", "end")  # the process lives after all: its word comes too late
        await written(engine, places.here, 3)
        assert (await places.third.listen(after=first.id).messages())[-1] == last


def die(session: Session, presence: Any) -> None:
    """Have a process be taken for dead: nobody has seen a sign of life of it for some looks."""
    process = environment(session.client).process
    presence._changed[process] = presence._looks - MISSED
    presence._since = min(presence._since, presence._looks - MISSED)


async def test_the_end_of_a_server_is_told_to_who_comes_back_elsewhere(
    engine: Memory | Sqlite, serve: Serve, steps: Steps, schema_dir: Path
) -> None:
    async with serve(make_server(steps, engine)) as there:
        app = make_server(steps, engine).asgi(grace=0)
        async with lifespan(app):
            session = await Client(app, schema_dir).initialize()
            call = session.call("tell", id="cut")
            await steps.take("one")
            first = await priming(call)
            await gone(call)
        messages = await session.at(there).listen(after=first.id).messages()
        assert said(messages[:1]) == ["one"]
        assert (messages[-1]["id"], messages[-1]["error"]["code"]) == ("cut", -32603)
        assert "ended before the call was finished" in messages[-1]["error"]["message"]


@pytest.mark.slow
async def test_a_listener_hears_what_it_has_missed_and_goes_on_elsewhere(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        await subscribe(places.here, "a", "b", "c")
        stream = places.here.listen()
        await priming(stream)
        places.servers[0].resource_updated("resumed://a")
        seen = await stream.event()
        assert seen is not None
        places.servers[0].resource_updated("resumed://b")
        await stream.event()
        back = places.there.listen(after=seen.id)
        assert uri_of(await back.message()) == "b"
        new = await priming(back)
        assert new.id is not None
        assert new.id[:8] == environment(places.there.client).process, "it has a name of its own from now on"
        assert await stream.messages() == []
        places.servers[0].resource_updated("resumed://c")
        while (uri := uri_of(await back.message())) != "c":
            assert uri == "b", "of which this process may have heard as well"


@pytest.mark.slow
async def test_a_listener_of_a_process_that_has_died_is_told_of_all(
    engine: Memory | Sqlite, serve: Serve, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.transports.http.sessions.relay._PATIENCE", 0.01)
    async with three(serve, engine, steps) as places:
        await subscribe(places.there, "a", "b")
        back = places.there.listen(after="00000000g1-3")
        messages = [await back.message() for _ in range(4)]
        assert sorted(each["method"].removeprefix("notifications/") for each in messages) == [
            "resources/list_changed",
            "resources/updated",
            "resources/updated",
            "tools/list_changed",
        ]


@pytest.mark.slow
async def test_older_streams_are_told_when_the_process_of_the_newest_dies(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        await subscribe(places.here, "a", "b")
        old = places.here.listen()
        await priming(old)
        new = places.there.listen()
        await priming(new)
        live = places.here.client.app.door()._begin().sessions._by_id[places.here.id]
        await until(lambda: live.telling.is_elsewhere)
        die(places.there, environment(places.here.client).presence)
        places.here.client.app.door()._begin().sessions.mend()
        told = [await old.message() for _ in range(4)]
        assert sorted(uri_of(each) for each in told if "uri" in each.get("params", {})) == ["a", "b"]
        assert live.telling._teller == environment(places.here.client).process


async def test_a_session_that_ends_leaves_nothing_in_the_store(serve: Serve, steps: Steps) -> None:
    engine = Memory()
    async with three(serve, engine, steps) as places:
        for session in (places.here, places.there):
            await session.call("count", {"times": 2}).whole()
            await written(engine, session, 3)
        assert len(engine._values.beginning("resumed/events/")) == 2
        await places.third.delete()
        await until(lambda: engine._values.beginning("resumed/events/") == [])


async def test_a_session_that_has_made_room_leaves_what_its_client_may_come_back_for(
    engine: Memory | Sqlite, serve: Serve, steps: Steps
) -> None:
    async with three(serve, engine, steps) as places:
        call = await places.here.call("count", {"times": 2}).whole()
        first, *rest = call.waiting()
        await written(engine, places.here, 3)
        sessions = places.here.client.app.door()._begin().sessions
        sessions._forget(sessions._by_id[places.here.id])
        assert (await places.here.listen(after=first.id).whole()).waiting() == rest
