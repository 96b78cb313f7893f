"""Stored events: limits, and streams that are resumed in another process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Memory, Server
from mcpkit.state.presence import MISSED
from mcpkit.transports.http.sessions.events import _BESIDES, MOST_EVENTS, SHARE, Events, Shelf
from tests.helpers.raw_client import (
    Answer,
    Client,
    Serve,
    Session,
    first_event,
    texts_of,
)
from tests.helpers.servers.full import Steps, make_server
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

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
    servers: list[Server]


@pytest.fixture
def engine() -> Memory:
    return Memory()


@asynccontextmanager
async def three_processes(
    serve: Serve, engine: Memory, steps: Steps, **options: Any
) -> AsyncIterator[Processes]:
    async with AsyncExitStack() as stack:
        servers = [make_server(steps=steps, shared=engine) for _ in range(3)]
        clients = [await stack.enter_async_context(serve(server, **options)) for server in servers]
        before = asyncio.all_tasks()
        session = await clients[0].initialize()
        yield Processes(session, session.at(clients[1]), session.at(clients[2]), servers)
        for client in clients:
            await client.aclose()
        await until(lambda: asyncio.all_tasks() <= before)  # end of streams is published


def environment(client: Client) -> Any:
    return client.app.door()._begin().environment


async def disconnect(answer: Answer) -> None:
    answer.disconnect()
    await answer.whole()


async def wait_for_store(engine: Memory, session: Session, sent: int) -> None:
    journal = environment(session.client).journal
    while journal._dirty or journal._task is not None:
        await asyncio.sleep(0.001)


@pytest.mark.slow
async def test_stream_is_resumed_in_other_process(engine: Memory, serve: Serve, steps: Steps) -> None:
    async with three_processes(serve, engine, steps) as processes:
        call = processes.here.call("step")
        await steps.take("one")
        first = await first_event(call)
        await call.event()
        await disconnect(call)
        await steps.take("two", "three", "end")
        for session in (processes.there, processes.third, processes.here):
            again = session.listen(after=first.id)
            assert texts_of(await again.messages()) == ["one", "two", "three", "the end"]


async def test_call_of_dead_process_is_error(engine: Memory, serve: Serve, steps: Steps) -> None:
    async with three_processes(serve, engine, steps) as processes:
        call = processes.here.call("step", id="lost")
        await steps.take("one")
        first = await first_event(call)
        await wait_for_store(engine, processes.here, 1)
        back = processes.there.listen(after=first.id)
        assert texts_of([await back.message()]) == ["one"]
        mark_dead(processes.here, environment(processes.there.client).presence)
        last = await back.message()
        assert (last["id"], last["error"]["code"]) == ("lost", -32603)
        assert "has ended" in last["error"]["message"]
        assert "may or may not have happened" in last["error"]["message"]
        assert await back.message() is None
        assert [last] == (await processes.third.listen(after=first.id).messages())[1:], "wherever one asks"
        await steps.take("two", "end")  # the process lives after all: its word comes too late
        await wait_for_store(engine, processes.here, 3)
        assert (await processes.third.listen(after=first.id).messages())[-1] == last


def mark_dead(session: Session, presence: Any) -> None:
    process = environment(session.client).process
    presence._changed[process] = presence._looks - MISSED
    presence._since = min(presence._since, presence._looks - MISSED)
