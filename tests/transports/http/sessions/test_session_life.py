"""How long a session lives, and what its calls are told when the server does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcpkit import Context, Memory, Server
from tests.helpers.asgi_client import Client, Serve, Session, lifespan
from tests.helpers.pipe import HANDSHAKE
from tests.helpers.shared_memory import sessions_in
from tests.helpers.waiting import LoopClock
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio

SESSIONS = [revision for revision in HANDSHAKE if revision != "2024-11-05"]
TTL = 1000.0
SPACING = 10.0


class Store(Memory):
    """A store that counts how often a session is written."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock)
        self.written = 0

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        self.written += "/session/" in key
        await super().write(key, changes, ttl)


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
async def store(clock: LoopClock) -> Store:
    return Store(clock)


@pytest.fixture
async def server(store: Store, work: Work) -> Server:
    server = Server("lived", version="1", secret="a secret of sixteen bytes and more", shared=store)

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.log("debug", "not told")
        await work.wait()
        return "waited"

    @server.resource("lived://{name}")
    async def any_resource(name: str) -> str:
        return name

    return server


async def is_there(session: Session) -> bool:
    answer = await session.ask("ping").whole()
    assert answer.status in {200, 404}
    return answer.status == 200


# How long


async def test_a_session_lives_on_for_its_whole_time_from_any_request_on(
    server: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(server, session_ttl=TTL) as client:
        session = await client.initialize()
        for _ in range(3):
            clock.ahead += SPACING - 1  # a request that the store is not told of
            assert await is_there(session)
            clock.ahead += TTL - 1
            assert await is_there(session)


async def test_a_session_that_is_not_used_ends_soon_after_its_time(
    server: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(server, session_ttl=TTL) as client:
        session = await client.initialize()
        assert await is_there(session)
        clock.ahead += TTL + SPACING
        assert not await is_there(session)


async def test_the_store_is_told_now_and_then_that_a_session_is_in_use(
    server: Server, serve: Serve, clock: LoopClock, store: Store
) -> None:
    async with serve(server, session_ttl=TTL) as client:
        session = await client.initialize()
        before = store.written
        for _ in range(50):
            assert await is_there(session)
        assert store.written == before
        clock.ahead += SPACING
        for _ in range(50):
            assert await is_there(session)
        assert store.written == before + 1


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_any_request_prolongs_the_life(
    method: str, server: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(server, session_ttl=TTL) as client:
        session = await client.initialize()
        clock.ahead += TTL - 1
        if method == "GET":
            stream = await session.listen().head()
            stream.disconnect()
            await stream.whole()
        else:
            await session.notify("notifications/cancelled", {"requestId": 99})
        clock.ahead += TTL - 1
        assert await is_there(session)


async def test_a_session_that_listens_lives_on(
    server: Server, serve: Serve, clock: LoopClock, store: Store
) -> None:
    async with serve(server, session_ttl=TTL, keep_alive=10 * TTL) as client:
        session = await client.initialize()
        stream = await session.listen().head()
        for _ in range(8):
            clock.ahead += TTL / 4
            client.app.door()._begin().sessions._sweep()
            await asyncio.sleep(0)
        clock.ahead += TTL / 4
        assert await is_there(session)
        assert not stream.is_over


@pytest.mark.parametrize("is_used", [False, True])
async def test_streams_and_calls_end_at_the_greatest_age_of_their_session(
    is_used: bool, server: Server, serve: Serve, clock: LoopClock, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(server, session_max_age=60, keep_alive=10 * TTL) as client:
        session = await client.initialize()
        stream, call = await session.listen().head(), session.call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
        sessions = client.app.door()._begin().sessions
        clock.ahead += 0 if is_used else TTL
        sessions._sweep()
        assert not stream.is_over
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 60)
        sessions._sweep()
        assert await stream.messages() == []
        await asyncio.wait_for(work.cancelled.wait(), 10)
        assert await call.messages() == []
        assert len(sessions) == 0


async def test_a_session_that_has_lost_its_state_is_not_found(
    server: Server, serve: Serve, store: Store
) -> None:
    """What was left of it, or written late, does not bring it back."""
    async with serve(server) as client:
        session = await client.initialize()
        key = client.app.door()._begin().sessions._by_id[session.id].record.key
        await store.erase(key)
        await store.write(key, {"level": "error"}, TTL)
        assert not await is_there(session)


async def test_a_session_of_another_store_is_served_though_nothing_is_known_of_it(
    server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
    elsewhere = Server("lived", version="1", secret="a secret of sixteen bytes and more", shared=Memory())
    async with serve(elsewhere) as client:
        for _ in range(2):
            assert await is_there(session.at(client))
        assert isinstance(elsewhere.engine.runtime.shared, Memory)
        assert sessions_in(elsewhere.engine.runtime.shared) == [], "what is known already is in its id"


# The end of the server


@pytest.mark.parametrize("stream_after", [0, 3600])
@pytest.mark.parametrize("revision", SESSIONS)
@pytest.mark.parametrize("stateless", [False, True])
async def test_a_call_that_the_end_of_the_server_cuts_off_is_told_so(
    revision: str, stream_after: float, stateless: bool, server: Server, work: Work, schema_dir: Path
) -> None:
    app = server.asgi(grace=0, stream_after=stream_after, stateless=stateless)
    async with lifespan(app):
        session = await Client(app, schema_dir).initialize(revision)
        call = session.call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
        if stream_after == 0:
            await call.head()
    await call.whole()
    assert call.is_stream == (stream_after == 0)
    if not call.is_stream:
        assert call.status == 503
        assert int(call.headers["retry-after"]) >= 1
    response = await call.response()
    assert response["error"]["code"] == -32603
    assert "ended before the call was finished" in response["error"]["message"]
    assert work.cancelled.is_set()


@pytest.mark.parametrize("stateless", [False, True])
async def test_each_call_of_a_batch_is_told_so(
    stateless: bool, server: Server, work: Work, schema_dir: Path
) -> None:
    app = server.asgi(grace=0, stateless=stateless)
    async with lifespan(app):
        session = await Client(app, schema_dir).initialize("2025-03-26")
        params = {"name": "wait", "arguments": {}}
        calls = [{"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params} for id_ in "ab"]
        answer = session.post([*calls, {"jsonrpc": "2.0", "id": "c", "method": "ping"}])
        await asyncio.wait_for(work.started.wait(), 10)
    await answer.whole()
    messages = await answer.response()
    assert isinstance(messages, list)
    responses = {each["id"]: each for each in messages}
    assert responses["c"]["result"] == {}
    assert {responses[id_]["error"]["code"] for id_ in "ab"} == {-32603}


@pytest.mark.parametrize("stream_after", [0, 3600])
async def test_a_call_that_its_client_gives_up_is_told_nothing(
    stream_after: float, server: Server, work: Work, serve: Serve
) -> None:
    async with serve(server, stream_after=stream_after) as client:
        for give_up in ("cancel", "delete"):
            session = await client.initialize()
            call = session.call("wait", id=7)
            await asyncio.wait_for(work.started.wait(), 10)
            if give_up == "cancel":
                await session.notify("notifications/cancelled", {"requestId": 7})
            else:
                await session.delete()
            assert await call.messages() == []
