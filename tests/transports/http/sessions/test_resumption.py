"""Event streams of sessions: resumption, delivery and stored events, in one process and in several."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.storage import Memory
from mcpkit.storage.jobs_and_heartbeats import MISSED
from mcpkit.transports.http.sessions.event_streams import (
    _EVENT_OVERHEAD,
    MAX_EVENTS,
    SESSION_SHARE,
    EventBuffer,
    EventStream,
    EventStreams,
)
from tests.helpers import raw_client
from tests.helpers.pipe import settle
from tests.helpers.servers.full import Steps, make_server
from tests.helpers.waiting import until


async def drop_after_first_message(call: raw_client.Answer) -> tuple[str | None, str | None]:
    """Read two events, disconnect, and return their ids."""
    first, second = await raw_client.first_event(call), await raw_client.first_event(call)
    call.disconnect()
    await call.whole()
    return first.id, second.id


async def test_resumed_stream_replays_missed_events_only(client: raw_client.Client, steps: Steps) -> None:
    session = await client.initialize()
    call = session.call_tool("step")
    await steps.take("one", "two")
    _, seen = await drop_after_first_message(call)
    await steps.take("three", "four")
    await (await session.call_tool("count", {"times": 3}).whole()).messages()  # of another stream
    back = session.listen(after=seen)
    assert raw_client.texts_of([await back.message() for _ in range(3)]) == ["two", "three", "four"]
    await steps.take("five", "end")
    assert raw_client.texts_of(await back.messages()) == ["five", "the end"]
    assert (await back.whole()).is_over, "the response ends the stream"


async def test_stream_of_other_session_is_not_replayed(server: Server, client: raw_client.Client) -> None:
    mine, theirs = await client.initialize(), await client.initialize()
    call = await theirs.call_tool("count", {"times": 3}).whole()
    answer = await mine.listen(after=call.waiting()[0].id).head()
    if answer.is_stream:
        await raw_client.first_event(answer)
        await raw_client.expect_list_change(answer, server)
    else:
        assert (answer.status or 0) >= 400
    assert b"counted" not in answer.body


async def test_message_is_sent_on_one_stream_only(server: Server, client: raw_client.Client) -> None:
    session = await client.initialize()
    uris = [str(number) for number in range(20)]
    await raw_client.subscribe(session, *uris)
    streams = [await raw_client.open_stream(session) for _ in range(3)]
    for uri in uris:
        server.notify_resource_updated(f"towns://{uri}")
    found: list[str] = []
    while len(found) < len(uris):
        await settle()
        found += [
            raw_client.uri_of(raw_client.message_of(event))
            for stream in streams
            for event in stream.waiting()
        ]
    await settle()
    assert not any(stream.waiting() for stream in streams)
    assert sorted(found) == sorted(uris)


async def test_changes_above_limit_are_summarized(server: Server, client: raw_client.Client) -> None:
    session = await client.initialize()
    await raw_client.subscribe(session, "{name}")
    for number in range(300):
        server.notify_resource_updated(f"towns://{number}")
    await raw_client.subscribe(session, "rome")
    server.notify_resource_updated("towns://rome")
    server.catalog.tools.remove("step")
    await session.ask("ping").whole()  # changes are processed
    stream = session.listen()
    found = [await stream.message() for _ in range(259)]
    assert stream.waiting() == []
    updated = [raw_client.uri_of(message) for message in found if "params" in message]
    assert updated == [*map(str, range(256)), "{name}", "rome"]
    server.notify_resource_updated("towns://299")
    assert raw_client.uri_of(await stream.message()) == "299"


async def test_discarded_stream_is_refused(client: raw_client.Client) -> None:
    session = await client.initialize()
    old = await session.call_tool("count", {"times": 1}).whole()
    for _ in range(300):
        await session.call_tool("count", {"times": 1}).whole()
    first, *_, last = old.waiting()
    for seen in (first, last):
        answer = await session.listen(after=seen.id).whole()
        assert answer.status == 400
        assert "Send the request again, unless its response has arrived" in answer.error()["message"]


async def test_close_stream_ends_connection(client: raw_client.Client, steps: Steps) -> None:
    session = await client.initialize()
    call = session.call_tool("step")
    await steps.take("one", "close")
    first = await raw_client.first_event(call)
    assert first.retry is not None
    assert raw_client.texts_of(await call.messages()) == ["one"]
    assert (await call.whole()).is_over
    await steps.take("two", "end")
    assert raw_client.texts_of(await session.listen(after=first.id).messages()) == ["one", "two", "the end"]


async def test_complete_stream_refuses_resumption(client: raw_client.Client) -> None:
    session = await client.initialize()
    call = await session.call_tool("report").whole()
    *_, progress, response = call.waiting()
    again = await session.listen(after=progress.id).whole()
    assert [event.id for event in again.waiting()] == [response.id]
    assert (await session.listen(after=response.id).whole()).status == 405


async def test_stored_events_are_bounded_and_latest(client: raw_client.Client) -> None:
    session, times = await client.initialize(), 1000
    call = session.call_tool("count", {"times": times, "size": 10})
    first = await raw_client.first_event(call)
    await call.whole()
    again = await session.listen(after=first.id).whole()
    *missed, response = again.waiting()
    assert len(missed) < 256
    assert len(again.body) < 5 * 1024 * 1024
    assert raw_client.texts_of([raw_client.message_of(response)]) == ["counted"]
    numbers = [int(raw_client.message_of(event)["params"]["data"].split()[0]) for event in missed]
    assert numbers == list(range(times - len(missed), times)), "no gap but at the beginning"


LIMIT = 1_600_000
MOST = LIMIT // SESSION_SHARE
SIZES = st.one_of(
    st.integers(0, 3000),
    st.builds(lambda off: MOST - _EVENT_OVERHEAD + off, st.integers(-2, 2)),
    st.integers(MOST, 3 * LIMIT),
)


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 40), SIZES, st.integers(1, 300)), max_size=40))
@pytest.mark.limit("events kept for a client that comes back")
def test_event_store_keeps_latest_within_limits(steps: list[tuple[int, int, int]]) -> None:
    buffer = EventBuffer(LIMIT)
    state: Any = SimpleNamespace(process="0123abcd", event_store=None)
    sessions: dict[int, EventStream] = {}
    kept: dict[int, deque[tuple[int, int]]] = {}  # number and bytes of the events of each session
    for number, (index, size, times) in enumerate(steps):
        if index not in sessions:
            sessions[index] = EventStream(EventStreams(buffer, state, str(index), has_ids=True))
        stream = sessions[index]
        for each in range(times if size < MOST else 1):
            is_kept = stream.streams.keep(stream, number * 1000 + each, b"x" * size)
            assert is_kept == (size + _EVENT_OVERHEAD <= MOST)
            if is_kept:
                kept.setdefault(index, deque()).append((number * 1000 + each, size + _EVENT_OVERHEAD))
        assert buffer.size <= LIMIT
    total = 0
    for index, stream in sessions.items():
        numbers = [number for number, _ in stream.events_after(-1)]
        own = list(kept.get(index, ()))
        latest = own[len(own) - len(numbers) :]
        assert numbers == [number for number, _ in latest]
        assert len(numbers) <= MAX_EVENTS
        size = sum(size for _, size in latest)
        assert size <= MOST
        total += size
    assert total == buffer.size
    for stream in sessions.values():
        stream.streams.close(is_over=True)
    assert (buffer.size, len(buffer.events)) == (0, 0)


@asynccontextmanager
async def three_processes(serve: raw_client.Serve, steps: Steps) -> AsyncIterator[list[raw_client.Session]]:
    """Serve three times with one store; yield one session at all of them."""
    engine = Memory()
    one, two, three = (make_server(steps=steps, storage=engine) for _ in range(3))
    async with serve(one) as here, serve(two) as there, serve(three) as third:
        before = asyncio.all_tasks()
        session = await here.initialize()
        yield [session, session.at(there), session.at(third)]
        for client in (here, there, third):
            await client.aclose()
        await until(lambda: asyncio.all_tasks() <= before)  # the end of streams is published


async def test_stream_is_resumed_in_other_process(serve: raw_client.Serve, steps: Steps) -> None:
    async with three_processes(serve, steps) as (here, there, third):
        call = here.call_tool("step")
        await steps.take("one")
        first, _ = await drop_after_first_message(call)
        await steps.take("two", "three", "end")
        for session in (there, third, here):
            again = session.listen(after=first)
            assert raw_client.texts_of(await again.messages()) == ["one", "two", "three", "the end"]


def loop_state_of(session: raw_client.Session) -> Any:
    return session.client.app.router()._service().loop_state


async def test_call_of_dead_process_is_error(serve: raw_client.Serve, steps: Steps) -> None:
    async with three_processes(serve, steps) as (here, there, third):
        store, membership = loop_state_of(here).event_store, loop_state_of(there).membership
        call = here.call_tool("step", id="lost")
        await steps.take("one")
        first = await raw_client.first_event(call)
        await store.flush()
        back = there.listen(after=first.id)
        assert raw_client.texts_of([await back.message()]) == ["one"]
        membership._changed[loop_state_of(here).process] = membership._polls - MISSED  # seen as dead
        membership._first_poll = min(membership._first_poll, membership._polls - MISSED)
        last = await back.message()
        assert (last["id"], last["error"]["code"]) == ("lost", -32603)
        assert "has ended" in last["error"]["message"]
        assert "may or may not have been executed" in last["error"]["message"]
        assert await back.message() is None
        assert [last] == (await third.listen(after=first.id).messages())[1:], "the same in all processes"
        await steps.take("two", "end")  # the process lives after all: its response comes too late
        await store.flush()
        assert (await third.listen(after=first.id).messages())[-1] == last


async def test_standalone_stream_moves_to_other_process(serve: raw_client.Serve) -> None:
    storage = Memory()
    one, two = (make_server(storage=storage) for _ in range(2))
    async with serve(one) as client, serve(two) as other:
        here = await client.initialize()
        there = here.at(other)
        await raw_client.subscribe(here, "oslo", "rome")
        stream = await raw_client.open_stream(here)
        one.notify_resource_updated("towns://oslo")
        first = await raw_client.first_event(stream)
        one.notify_resource_updated("towns://rome")
        await until(lambda: b"rome" in stream.body)
        stream.disconnect()
        await stream.whole()
        again = there.listen(after=first.id)
        assert raw_client.uri_of(await again.message()) == "rome"
        two.notify_resource_updated("towns://oslo")
        assert raw_client.uri_of(await again.message()) == "oslo"
        await settle()
        assert again.waiting() == []


async def test_client_of_dead_process_is_notified_of_all_subscriptions(serve: raw_client.Serve) -> None:
    storage = Memory()
    one, two = (make_server(storage=storage) for _ in range(2))
    async with serve(one) as client, serve(two) as other:
        here = await client.initialize()
        there = here.at(other)
        await raw_client.subscribe(here, "oslo")
        stream = await raw_client.open_stream(here)
        one.notify_resource_updated("towns://oslo")
        first = await raw_client.first_event(stream)
        await loop_state_of(here).event_store.flush()
        assert (await there.ask("ping").whole()).status == 200
        process, membership = loop_state_of(here).process, loop_state_of(there).membership
        membership._changed[process] = membership._polls - MISSED
        membership._first_poll = min(membership._first_poll, membership._polls - MISSED)
        again = there.listen(after=first.id)
        uris: list[str] = []
        while not uris:
            message = await again.message()
            uris += [raw_client.uri_of(message)] if "params" in message else []
        assert uris == ["oslo"]
