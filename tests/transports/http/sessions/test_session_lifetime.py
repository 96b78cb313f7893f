"""Lifetime of sessions, limits on their number, and sessions that several processes share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, HttpOptions, Limits, Server, Timeouts
from mcpkit.storage import Memory
from tests.helpers.raw_client import (
    PING,
    Client,
    Serve,
    Session,
    initialize,
    open_stream,
    subscribe,
    uri_of,
)
from tests.helpers.servers.full import make_server
from tests.helpers.waiting import LoopClock, Work

pytestmark = pytest.mark.anyio

TTL = 1000.0


class CountingStore(Memory):
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
async def counting_store(clock: LoopClock) -> CountingStore:
    return CountingStore(clock)


@pytest.fixture
async def session_server(counting_store: CountingStore, work: Work) -> Server:
    session_server = Server(
        "lived", version="1", secret_key="a secret of sixteen bytes and more", storage=counting_store
    )

    @session_server.tool
    async def wait(ctx: Context) -> str:
        await ctx.log("debug", "not sent")
        await work.wait()
        return "waited"

    @session_server.resource("lived://{name}")
    async def any_resource(name: str) -> str:
        return name

    return session_server


async def test_listening_session_stays_alive(
    session_server: Server, serve: Serve, clock: LoopClock, counting_store: CountingStore
) -> None:
    async with serve(
        session_server, timeouts=Timeouts(session_idle=TTL), http=HttpOptions(sse_ping_interval=10 * TTL)
    ) as client:
        session = await client.initialize()
        stream = await session.listen().head()
        for _ in range(8):
            clock.ahead += TTL / 4
            client.app.door()._begin().sessions._sweep()
            await asyncio.sleep(0)
        clock.ahead += TTL / 4
        assert (await session.ask("ping").whole()).status == 200
        assert not stream.is_over


@pytest.mark.parametrize("is_used", [False])
@pytest.mark.limit("time of a session in all")
async def test_session_max_age_ends_streams_and_calls(
    is_used: bool,
    session_server: Server,
    serve: Serve,
    clock: LoopClock,
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serve(
        session_server, timeouts=Timeouts(session_max_age=60), http=HttpOptions(sse_ping_interval=10 * TTL)
    ) as client:
        session = await client.initialize()
        stream, call = await session.listen().head(), session.call_tool("wait")
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


BRIEF = 60.0


class SlowStore(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await self.gate.wait()
        await super().write(key, changes, ttl)


@pytest.fixture
async def timed_server(work: Work, clock: LoopClock) -> Server:
    return make_server(work, storage=Memory(clock))


def session_count(client: Client) -> int:
    return len(client.app.door()._begin().sessions)


async def yield_to_loop() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def ping(client: Client, opened: Any) -> int | None:
    return (await client.post(PING, {"mcp-session-id": opened.headers["mcp-session-id"]}).whole()).status


async def test_evicted_session_is_restored(timed_server: Server, serve: Serve, clock: LoopClock) -> None:
    async with serve(timed_server, limits=Limits(max_sessions=1)) as client:
        first = await client.initialize()
        await first.ask("resources/subscribe", {"uri": "weather://fixed"}).whole()
        clock.ahead += BRIEF
        second = await client.initialize()
        assert session_count(client) == 1
        clock.ahead += BRIEF
        stream = await first.listen().head()
        timed_server.notify_resource_updated("weather://fixed")
        assert (await stream.message())["params"]["uri"] == "weather://fixed"
        refused = await second.ask("ping").whole()
        assert refused.status == 503, "the only place is taken by one that listens"


async def test_busy_sessions_are_not_evicted(
    timed_server: Server, serve: Serve, clock: LoopClock, work: Work
) -> None:
    async with serve(
        timed_server, limits=Limits(max_sessions=3), http=HttpOptions(sse_ping_interval=10 * BRIEF)
    ) as client:
        listening, running, idle = [await client.initialize() for _ in range(3)]
        stream, call = await listening.listen().head(), running.call_tool("wait")
        await asyncio.wait_for(work.started.wait(), 10)
        clock.ahead += BRIEF
        await client.initialize()
        sessions = client.app.door()._begin().sessions
        assert {listening.id, running.id} < set(sessions._by_id)
        assert idle.id not in sessions._by_id
        work.gate.set()
        assert "result" in await call.response()
        assert not stream.is_over


@pytest.mark.parametrize("limit", [5])
async def test_concurrent_initialize_respects_max_sessions(limit: int, work: Work, serve: Serve) -> None:
    store = SlowStore()
    async with serve(make_server(work, storage=store), limits=Limits(max_sessions=limit)) as client:
        store.gate.clear()
        answers = [client.post(initialize()) for _ in range(4 * limit)]
        await yield_to_loop()
        store.gate.set()
        statuses = [(await answer.whole()).status for answer in answers]
        assert statuses.count(200) == session_count(client) == limit
        assert statuses.count(503) == 3 * limit
        assert (await client.post(initialize()).whole()).status == 200, (
            "those that were refused hold no place"
        )


class Shared(Memory):
    """Store whose reads, writes and publications can be delayed or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = self.loses_messages = False

    async def read(self, key: str) -> Mapping[str, str]:
        self._check()
        return await super().read(key)

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        self._check()
        await super().write(key, changes, ttl)

    async def erase(self, key: str) -> None:
        self._check()
        await super().erase(key)

    async def publish(self, topic: str, message: str) -> None:
        if self.refuses or self.loses_messages:
            raise ConnectionError("the store is down")
        await super().publish(topic, message)

    def _check(self) -> None:
        if self.refuses:
            raise ConnectionError("the store is down")


@pytest.fixture
def broker() -> Shared:
    return Shared()


async def test_session_deleted_in_other_process_ends(broker: Shared, serve: Serve, work: Work) -> None:
    async with serve(make_server(work, storage=broker)) as here, serve(make_server(storage=broker)) as there:
        session = await here.initialize()
        streams = [await open_stream(session), await open_stream(session)]
        call = session.call_tool("wait")
        await asyncio.wait_for(work.started.wait(), 10)
        assert (await session.at(there).delete()).status == 204
        for stream in streams:
            assert await stream.messages() == []
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await call.whole()
        assert len(here.app.door()._begin().sessions) == 0


@pytest.mark.parametrize("method", ["initialize", "DELETE", "elsewhere"])
async def test_failing_store_is_503(
    method: str, broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(make_server(storage=broker)) as client, serve(make_server(storage=broker)) as other:
        session = await client.initialize()
        broker.refuses = True
        if method == "initialize":
            answer = await client.post(initialize()).whole()
        elif method == "DELETE":
            answer = await session.delete()
        else:
            answer = await session.at(other).ask("ping").whole()
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert b"is not available" in answer.body
        assert b"the store is down" not in answer.body
        assert "the shared store does not answer" in caplog.text
        broker.refuses = False
        assert (await session.ask("ping").whole()).status == 200


async def test_known_session_survives_store_failure(broker: Shared, serve: Serve) -> None:
    server = make_server(storage=broker)
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "oslo")
        broker.refuses = True
        assert (await session.ask("ping").whole()).status == 200
        assert (await session.ask("resources/read", {"uri": "towns://oslo"}).whole()).status == 200
        stream = await open_stream(session)
        server.notify_resource_updated("towns://oslo")
        assert uri_of(await stream.message()) == "oslo"
        broker.refuses = False
        assert (await session.delete()).status == 204
        assert (await session.ask("ping").whole()).status == 404


@asynccontextmanager
async def two_processes(serve: Serve, broker: Memory) -> AsyncIterator[tuple[Server, Session, Session]]:
    """Serve twice; yield the second server and one session at both."""
    server = make_server(storage=broker)
    async with serve(make_server(storage=broker)) as there, serve(server) as here:
        session = await here.initialize()
        yield server, session, session.at(there)


URI = "towns://Oslo"


FILTER = {"notifications": {"resourceSubscriptions": [URI]}}


@pytest.mark.parametrize("way", ["listen", "subscribe", "GET"])
async def test_subscription_without_bus_is_503(way: str, serve: Serve, broker: Shared) -> None:
    async with serve(make_server(storage=broker)) as client:
        session = await client.initialize()
        broker.listening = raise_down  # type: ignore[method-assign]
        if way == "listen":
            answer = await client.ask("subscriptions/listen", FILTER).whole()
        elif way == "subscribe":
            answer = await session.ask("resources/subscribe", {"uri": URI}).whole()
        else:
            answer = await session.listen().whole()
        assert answer.status == 503
        assert answer.headers["retry-after"]
        del broker.listening
        if way == "listen":
            stream = client.ask("subscriptions/listen", FILTER)
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        elif way == "subscribe":
            await subscribe(session, "Oslo")
        else:
            assert await session.listen().event() is not None


async def raise_down() -> None:
    raise ConnectionError("the store is down")


async def test_unpublished_change_is_read_with_next_request(
    broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_processes(serve, broker) as (server, here, there):
        stream = await open_stream(here)
        broker.loses_messages = True
        await subscribe(there, "oslo")
        broker.loses_messages = False
        assert "other processes were not notified" in caplog.text
        await here.ask("ping").whole()
        server.notify_resource_updated("towns://oslo")
        assert uri_of(await stream.message()) == "oslo"
