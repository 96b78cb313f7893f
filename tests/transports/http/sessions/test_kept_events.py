"""What is kept for clients that come back is bounded: for a session, for all of them, and for one event."""

from __future__ import annotations

import gc
import tracemalloc
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, Server
from mcpkit.transports.http.sessions.events import _BESIDES, MOST_EVENTS, SHARE, Events, Shelf
from tests.helpers.asgi_client import Serve, Session
from tests.helpers.resumed import Steps, make_server, priming, said

pytestmark = [pytest.mark.anyio, pytest.mark.long]

LIMIT = 1_600_000
MOST = LIMIT // SHARE
"""Bytes of the events of one session, and so of one event, with what it takes beside its message."""


# By themselves

Step = tuple[int, int, int]
SIZES = st.one_of(
    st.integers(0, 3000),
    st.builds(lambda off: MOST - _BESIDES + off, st.integers(-2, 2)),
    st.integers(MOST, 3 * LIMIT),
)


@given(st.lists(st.tuples(st.integers(0, 40), SIZES, st.integers(1, 300)), max_size=40))
def test_whatever_is_kept_is_the_latest_and_within_all_bounds(steps: list[Step]) -> None:
    shelf = Shelf(LIMIT)
    sessions: dict[int, Events] = {}
    said: deque[tuple[int, int, int]] = deque()  # session, number and bytes, of what may be kept
    for number, (index, size, times) in enumerate(steps):
        events = sessions.setdefault(index, Events("0123abcd", shelf))
        for each in range(times if size < MOST else 1):
            is_kept = events.keep("s", number * 1000 + each, b"x" * size)
            assert is_kept == (size + _BESIDES <= MOST)
            if is_kept:
                said.append((index, number * 1000 + each, size + _BESIDES))
        assert shelf.size <= LIMIT
    kept = {index: [each.number for each in events.after("s", -1)] for index, events in sessions.items()}
    total = 0
    for index, numbers in kept.items():
        own = [(number, size) for session, number, size in said if session == index]
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


@given(st.integers(0, 3000), st.lists(st.integers(0, 3000), max_size=30))
def test_any_number_of_bytes_will_do(limit: int, sizes: list[int]) -> None:
    shelf = Shelf(limit)
    sessions = [Events("0123abcd", shelf) for _ in range(3)]
    for number, size in enumerate(sizes):
        sessions[number % 3].keep("s", number, b"x" * size)
        assert 0 <= shelf.size <= limit


# In a server


@pytest.fixture
def server() -> Server:
    server = Server("kept")

    @server.tool(structured=False)
    async def give(size: int, ctx: Context) -> str:
        """Report, and return a text of some length."""
        await ctx.progress(1)
        return "x" * size

    return server


async def given_to(session: Session, size: int) -> tuple[str, Any]:
    """Call the tool; return the id of the first event, and the response."""
    answer = session.call("give", {"size": size}, id="large")
    first = await priming(answer)
    messages = await answer.messages()
    session.client.opened.remove(answer)  # the test must not keep what it measures
    return first.id or "", messages[-1]


async def test_many_sessions_keep_no_more_than_a_process_may(server: Server, serve: Serve) -> None:
    size, count = 3_900_000, 30  # of which one session may keep one
    async with serve(server) as client:
        tracemalloc.start()
        try:
            for _ in range(count):
                await given_to(await client.initialize(), size)
                client.opened.clear()
            gc.collect()
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert 8 * size < used < 64 * 1024 * 1024 + 3 * size < count * size


async def test_a_session_that_ends_leaves_nothing(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        sessions = [await client.initialize() for _ in range(3)]
        shelf = client.app.door()._begin().environment.shelf
        for session in sessions:
            await given_to(session, 1000)
        assert shelf.size > 3000
        for session in sessions:
            await session.delete()
        assert shelf.size == 0


@pytest.mark.parametrize("size", [MOST, 10 * MOST], ids=["above", "far above"])
@pytest.mark.parametrize("is_there", [True, False], ids=["heard", "gone"])
async def test_who_comes_back_for_a_response_that_is_not_kept_is_told_so(
    server: Server, serve: Serve, size: int, is_there: bool
) -> None:
    async with serve(server, max_kept=LIMIT) as client:
        session = await client.initialize()
        if is_there:
            first, response = await given_to(session, size)
            assert len(response["result"]["content"][0]["text"]) == size
        else:
            answer = session.call("give", {"size": size}, id="large")
            first = (await priming(answer)).id or ""
            answer.disconnect()
            await answer.whole()
        for _ in range(2):
            *told, last = await session.listen(after=first).messages()
            assert [each["method"] for each in told] == ["notifications/progress"]
            assert (last["id"], last["error"]["code"]) == ("large", -32603)
            text = last["error"]["message"]
            assert text.startswith("The response is too large to be kept for a client that has lost its conn")
            assert text.endswith(f"of at most {MOST - _BESIDES:,}): send the request again")


async def test_a_response_that_just_fits_is_kept(server: Server, serve: Serve) -> None:
    envelope = len(b'{"jsonrpc":"2.0","id":"large","result":{"content":[{"type":"text","text":""}]}}')
    async with serve(server, max_kept=LIMIT) as client:
        session = await client.initialize()
        for size, is_kept in ((MOST - _BESIDES - envelope, True), (MOST - _BESIDES - envelope + 1, False)):
            first, response = await given_to(session, size)
            last = (await session.listen(after=first).messages())[-1]
            assert (last == response) == is_kept


async def test_who_comes_back_for_what_made_room_is_told_so(server: Server, serve: Serve) -> None:
    async with serve(server, max_kept=LIMIT) as client:
        early, late = await client.initialize(), await client.initialize()
        first, _ = await given_to(early, 1000)
        for _ in range(SHARE + 1):
            _, response = await given_to(await client.initialize(), MOST - 2 * _BESIDES)
            assert "result" in response
        last, response = await given_to(late, 1000)
        answer = await early.listen(after=first).whole()
        assert answer.status == 400
        assert "not kept any more; send the request again" in answer.error()["message"]
        assert (await late.listen(after=last).messages())[-1] == response


@pytest.mark.parametrize("limit", [0, 1])
async def test_nothing_is_kept_where_nothing_may_be(serve: Serve, limit: int) -> None:
    steps = Steps()
    async with serve(make_server(steps), max_kept=limit) as client:
        session = await client.initialize()
        call = session.call("tell")
        first = await priming(call)
        await steps.take("one")
        call.disconnect()
        await steps.take("two")
        back = session.listen(after=first.id)
        await back.head()
        await steps.take("three", "end")  # a call that goes on is taken up all the same
        assert said(await back.messages()) == ["three", "the end"]
        assert (await session.listen(after=first.id).whole()).status == 400
