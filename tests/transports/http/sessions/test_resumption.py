"""Event streams of sessions: resumption, delivery and stored events, in one process and in several."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.state.presence import MISSED
from mcpkit.storage import Memory
from mcpkit.transports.http.sessions.events import _BESIDES, MOST_EVENTS, SHARE, Events, Shelf
from tests.helpers.raw_client import (
    Answer,
    Client,
    Serve,
    Session,
    expect_list_change,
    first_event,
    message_of,
    subscribe,
    texts_of,
    uri_of,
    within,
)
from tests.helpers.servers.full import Steps, make_server
from tests.helpers.waiting import Work, until

pytestmark = pytest.mark.anyio


async def collect(streams: list[Answer], count: int) -> list[Any]:
    """Return `count` messages of any of the streams, and any more that arrive."""
    found: list[Any] = []
    for turn in range(10_000):
        found += [message_of(event) for stream in streams for event in stream.waiting() if event.data]
        await asyncio.sleep(0)
        if len(found) >= count and turn > 20:
            break
    return found


async def test_older_versions_have_no_event_ids(server: Server, client: Client) -> None:
    session = await client.initialize("2025-06-18")
    listening = await session.listen().head()
    call = await session.call_tool("count", {"times": 2}).whole()
    server.catalog.tools.remove("step")
    changed = await listening.event()
    events = [*call.waiting(), changed]
    assert len(events) == 4
    for event in events:
        assert event is not None
        assert (event.id, event.retry) == (None, None)
        assert event.data


async def test_resumed_stream_replays_missed_events_only(client: Client, steps: Steps) -> None:
    session = await client.initialize()
    call = session.call_tool("step")
    await steps.take("one", "two")
    await first_event(call)
    first = await call.event()
    call.disconnect()
    await call.whole()
    await steps.take("three", "four")
    await (await session.call_tool("count", {"times": 3}).whole()).messages()  # another stream's
    assert first is not None
    back = session.listen(after=first.id)
    assert [message_of(await back.event())["params"]["data"] for _ in range(3)] == [
        "two",
        "three",
        "four",
    ]
    await steps.take("five", "end")
    assert texts_of(await back.messages()) == ["five", "the end"]
    assert (await back.whole()).is_over, "the response ends the stream"


async def test_stream_of_other_session_is_not_replayed(server: Server, client: Client) -> None:
    mine, theirs = await client.initialize(), await client.initialize()
    call = await theirs.call_tool("count", {"times": 3}).whole()
    first = call.waiting()[0]
    answer = mine.listen(after=first.id)
    await answer.head()
    if answer.is_stream:
        await first_event(answer)
        await expect_list_change(answer, server)
    else:
        assert (answer.status or 0) >= 400
    assert b"counted" not in answer.body


async def test_message_is_sent_on_one_stream_only(server: Server, client: Client) -> None:
    session = await client.initialize()
    uris = [str(number) for number in range(20)]
    await subscribe(session, *uris)
    streams = [session.listen() for _ in range(3)]
    for stream in streams:
        await first_event(stream)
    for uri in uris:
        server.notify_resource_updated(f"towns://{uri}")
    found = await collect(streams, len(uris))
    assert sorted(uri_of(message) for message in found) == sorted(uris)


async def test_too_many_changes_are_summarized(server: Server, client: Client) -> None:
    session = await client.initialize()
    await subscribe(session, "{name}")
    for number in range(300):
        server.notify_resource_updated(f"towns://{number}")
    await subscribe(session, "rome")
    server.notify_resource_updated("towns://rome")
    server.catalog.tools.remove("step")
    await session.ask("ping").whole()  # changes are processed
    stream = session.listen()
    found = [await stream.message() for _ in range(259)]
    assert stream.waiting() == []
    updated = [uri_of(message) for message in found if "params" in message]
    assert updated[:256] == [str(number) for number in range(256)]
    assert updated[256:] == ["{name}", "rome"]
    server.notify_resource_updated("towns://299")
    assert uri_of(await stream.message()) == "299"


async def test_discarded_stream_is_refused(client: Client) -> None:
    session = await client.initialize()
    old = await session.call_tool("count", {"times": 1}).whole()
    for _ in range(300):
        await session.call_tool("count", {"times": 1}).whole()
    first, *_, last = old.waiting()
    for seen in (first, last):
        answer = await session.listen(after=seen.id).whole()
        assert answer.status == 400
        assert "Send the request again, unless its response has arrived" in answer.error()["message"]


async def test_close_stream_ends_connection(client: Client, steps: Steps) -> None:
    session = await client.initialize()
    call = session.call_tool("step")
    await steps.take("one", "close")
    first = await first_event(call)
    assert first.retry is not None
    assert texts_of(await call.messages()) == ["one"]
    assert (await call.whole()).is_over
    await steps.take("two", "end")
    assert texts_of(await session.listen(after=first.id).messages()) == ["one", "two", "the end"]


async def test_complete_stream_refuses_resumption(client: Client) -> None:
    session = await client.initialize()
    call = await session.call_tool("report").whole()
    *_, progress, response = call.waiting()
    again = await session.listen(after=progress.id).whole()
    assert [event.id for event in again.waiting()] == [response.id]
    assert (await session.listen(after=response.id).whole()).status == 405


async def test_stored_events_are_bounded_and_latest(client: Client) -> None:
    session, times = await client.initialize(), 1000
    call = session.call_tool("count", {"times": times, "size": 10})
    first = await first_event(call)
    await call.whole()
    again = await session.listen(after=first.id).whole()
    *missed, response = again.waiting()
    assert len(missed) < min(times, 256)
    assert len(again.body) < 5 * 1024 * 1024
    assert texts_of([message_of(response)]) == ["counted"]
    numbers = [int(message_of(event)["params"]["data"].split()[0]) for event in missed]
    assert numbers == list(range(times - len(missed), times)), "no gap but at the beginning"


LIMIT = 1_600_000


MOST = LIMIT // SHARE


Step = tuple[int, int, int]


SIZES = st.one_of(
    st.integers(0, 3000),
    st.builds(lambda off: MOST - _BESIDES + off, st.integers(-2, 2)),
    st.integers(MOST, 3 * LIMIT),
)


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 40), SIZES, st.integers(1, 300)), max_size=40))
@pytest.mark.limit("events kept for a client that comes back")
def test_event_store_keeps_latest_within_limits(steps: list[Step]) -> None:
    shelf = Shelf(LIMIT)
    sessions: dict[int, Events] = {}
    texts: deque[tuple[int, int, int]] = deque()  # session, number and bytes, of what may be kept
    for number, (index, size, times) in enumerate(steps):
        events = sessions.setdefault(index, Events("0123abcd", shelf))
        for each in range(times if size < MOST else 1):
            is_kept = events.keep("s", number * 1000 + each, b"x" * size)
            assert is_kept == (size + _BESIDES <= MOST)
            if is_kept:
                texts.append((index, number * 1000 + each, size + _BESIDES))
        assert shelf.size <= LIMIT
    remaining = {index: [each.number for each in events.after("s", -1)] for index, events in sessions.items()}
    total = 0
    for index, numbers in remaining.items():
        own = [(number, size) for session, number, size in texts if session == index]
        assert numbers == [number for number, _ in own][len(own) - len(numbers) :]
        size = sum(size for _, size in own[len(own) - len(numbers) :])
        assert size <= MOST
        assert len(numbers) <= MOST_EVENTS
        total += size
    assert total == shelf.size
    for events in sessions.values():
        events.clear()
    assert shelf.size == 0
    assert not shelf._owners


class Processes(NamedTuple):
    here: Session
    there: Session
    third: Session


@pytest.fixture
def engine() -> Memory:
    return Memory()


@asynccontextmanager
async def three_processes(serve: Serve, engine: Memory, steps: Steps) -> AsyncIterator[Processes]:
    async with AsyncExitStack() as stack:
        servers = [make_server(steps=steps, storage=engine) for _ in range(3)]
        clients = [await stack.enter_async_context(serve(server)) for server in servers]
        before = asyncio.all_tasks()
        session = await clients[0].initialize()
        yield Processes(session, session.at(clients[1]), session.at(clients[2]))
        for client in clients:
            await client.aclose()
        await until(lambda: asyncio.all_tasks() <= before)  # end of streams is published


def environment(client: Client) -> Any:
    return client.app.door()._begin().environment


async def wait_for_store(session: Session) -> None:
    journal = environment(session.client).journal
    while journal._dirty or journal._task is not None:
        await asyncio.sleep(0.001)


@pytest.mark.slow
async def test_stream_is_resumed_in_other_process(engine: Memory, serve: Serve, steps: Steps) -> None:
    async with three_processes(serve, engine, steps) as processes:
        call = processes.here.call_tool("step")
        await steps.take("one")
        first = await first_event(call)
        await call.event()
        call.disconnect()
        await call.whole()
        await steps.take("two", "three", "end")
        for session in (processes.there, processes.third, processes.here):
            again = session.listen(after=first.id)
            assert texts_of(await again.messages()) == ["one", "two", "three", "the end"]


async def test_call_is_cancelled_in_other_process(engine: Memory, serve: Serve, work: Work) -> None:
    async with (
        serve(make_server(work, storage=engine)) as here,
        serve(make_server(storage=engine)) as there,
    ):
        session = await here.initialize()
        call = session.call_tool("wait", id=9)
        await within(work.started.wait())
        await session.at(there).notify("notifications/cancelled", {"requestId": 9})
        await within(work.cancelled.wait())
        assert await call.messages() == []


async def test_call_of_dead_process_is_error(engine: Memory, serve: Serve, steps: Steps) -> None:
    async with three_processes(serve, engine, steps) as processes:
        call = processes.here.call_tool("step", id="lost")
        await steps.take("one")
        first = await first_event(call)
        await wait_for_store(processes.here)
        back = processes.there.listen(after=first.id)
        assert texts_of([await back.message()]) == ["one"]
        mark_dead(processes.here, environment(processes.there.client).presence)
        last = await back.message()
        assert (last["id"], last["error"]["code"]) == ("lost", -32603)
        assert "has ended" in last["error"]["message"]
        assert "may or may not have been executed" in last["error"]["message"]
        assert await back.message() is None
        assert [last] == (await processes.third.listen(after=first.id).messages())[1:], "wherever one asks"
        await steps.take("two", "end")  # the process lives after all: its word comes too late
        await wait_for_store(processes.here)
        assert (await processes.third.listen(after=first.id).messages())[-1] == last


def mark_dead(session: Session, presence: Any) -> None:
    process = environment(session.client).process
    presence._changed[process] = presence._looks - MISSED
    presence._since = min(presence._since, presence._looks - MISSED)
