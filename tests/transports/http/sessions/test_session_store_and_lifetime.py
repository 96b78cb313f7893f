"""Shared state of sessions: records that are read and written at the same time, messages, and stored events."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import HttpOptions, Limits, Server, Timeouts
from mcpkit.protocol import revisions
from mcpkit.storage import Memory
from mcpkit.storage.encryption_keys import Keys
from mcpkit.transports.http.sessions import manager
from mcpkit.transports.http.sessions.event_store import Event, EventStore, StoredStream
from mcpkit.transports.http.sessions.session_store import (
    MessageKind,
    SessionBus,
    SessionRecord,
    SessionStore,
    SessionToken,
)
from tests.helpers.pipe import settle
from tests.helpers.raw_client import Client, Serve, initialize, open_stream, subscribe, uri_of, within
from tests.helpers.servers.full import make_server
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock, Work, until

KEYS = Keys("the secret of the weather station", "weather")


class SlowStore(Memory):
    """Storage whose reads return what was stored before they waited for the gate."""

    is_persistent = True

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads = 0

    async def read(self, key: str) -> Mapping[str, str]:
        self.reads += 1
        found = await super().read(key)
        await self.gate.wait()
        return found


async def open_record(storage: Memory) -> SessionRecord:
    token = SessionToken(
        id="0" * 32,
        home=storage.store_id,
        revision="2025-11-25",
        client=revisions.Client({"name": "test", "version": "1"}, {}),
        lists=frozenset(),
        expires=4e9,
    )
    store = SessionStore(storage, KEYS, SessionBus(storage, "weather", "0123abcd"), 60)
    return await store.open(store.new_id(token), 60)


async def test_read_during_save_keeps_own_change_and_finds_others() -> None:
    storage = SlowStore()
    record = await open_record(storage)
    await storage.write(record.key, {"level": "error"}, 60)
    storage.gate.clear()
    reading = asyncio.create_task(record.read())
    await settle()
    record.changes["notifier"] = "0123abcd"
    await record.try_save()
    storage.gate.set()
    assert await reading
    assert (record.fields["notifier"], record.fields["level"]) == ("0123abcd", "error")


async def test_older_read_does_not_replace_newer_one() -> None:
    storage = SlowStore()
    record = await open_record(storage)
    storage.gate.clear()
    older = asyncio.create_task(record.read())
    await settle()
    await storage.write(record.key, {"level": "error"}, 60)
    gate, storage.gate = storage.gate, asyncio.Event()
    storage.gate.set()
    assert await record.read()
    gate.set()
    assert await older
    assert record.fields["level"] == "error"


async def test_failed_save_keeps_changes() -> None:
    storage = SlowStore()
    record = await open_record(storage)
    record.changes["level"] = "error"
    write = storage.write

    async def fail(*_: object) -> None:
        raise ConnectionError("the store is down")

    storage.write = fail  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        await record.try_save()
    record.changes["level"] = "debug"
    storage.write = write  # type: ignore[method-assign]
    await record.try_save()
    assert (await storage.read(record.key))["level"] == "debug"


async def test_subscription_is_confirmed_by_notifier() -> None:
    storage = Memory()
    here, there = (SessionBus(storage, "weather", name) for name in ("aaaaaaaa", "bbbbbbbb"))
    received: list[tuple[str, str]] = []
    here.add("session", lambda kind, text: received.append((kind, text)))
    there.add("session", lambda kind, text: received.append((kind, text)))
    waiting = asyncio.create_task(here.publish_and_wait("session", MessageKind.CONFIRM))
    await until(lambda: received)
    await settle()
    assert not waiting.done(), "its own message is no confirmation"
    [(kind, text)] = received
    assert kind == MessageKind.CONFIRM
    await there.publish("session", MessageKind.CONFIRMED, text)
    await waiting


async def test_storage_that_hangs_delays_one_request(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_READ_TIMEOUT", 0.3)
    monkeypatch.setattr(manager, "_MAX_AGE", 0.0)
    storage = SlowStore()
    async with serve(make_server(storage=storage)) as client:
        session = await client.initialize()
        assert (await session.ask("ping").whole()).status == 200
        storage.gate.clear()
        before = storage.reads
        answers = [await session.ask("ping").whole() for _ in range(5)]
        assert [answer.status for answer in answers] == [200] * 5
        assert storage.reads == before + 1
        storage.gate.set()


class Stream(StoredStream):
    """A stream with one event of each size."""

    def __init__(self, *sizes: int) -> None:
        super().__init__("session", "0123abcdc1")
        self.request_id = "call"
        self.events = [(number, b"x" * size) for number, size in enumerate(sizes, 1)]
        self.sent = len(sizes)

    def events_after(self, number: int) -> list[Event]:
        return [each for each in self.events if each[0] > number]


class TimedStore(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.ttls: list[float] = []

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        self.ttls.append(ttl)
        return await super().put(key, value, version=version, ttl=ttl)


async def test_stream_of_running_call_is_stored_as_long_as_session_may_live() -> None:
    storage = TimedStore()
    store = EventStore(storage, KEYS, SessionBus(storage, "weather", "0123abcd"), ttl=60, max_age=1000)
    stream = Stream(10)
    store.write(stream)
    await store.flush()
    stream.is_finished = True
    store.write(stream)
    await store.flush()
    assert storage.ttls == [1000, 60]


async def test_large_events_are_written_once_and_removed_with_stream() -> None:
    storage = TimedStore()
    store = EventStore(storage, KEYS, SessionBus(storage, "weather", "0123abcd"), ttl=60, max_age=1000)
    stream = Stream(20_000)
    for number in (2, 3):
        store.write(stream)
        await store.flush()
        stream.events.append((number, b"x" * 10))
        stream.sent = number
    store.write(stream)
    await store.flush()
    assert len(storage.ttls) == 4, "the large event, and three times the rest"
    record = await store.read("session", stream.name)
    assert record is not None
    assert await store.events_after(record, 0) == stream.events
    assert await store.events_after(record, 2) == stream.events[2:]
    store.remove(stream)
    await store.flush()
    assert await store.read("session", stream.name) is None
    assert [key async for key, _ in storage.items("")] == []


async def test_end_of_dead_process_stops_its_late_writes() -> None:
    storage = Memory()
    here, there = (
        EventStore(storage, KEYS, SessionBus(storage, "weather", name), ttl=60, max_age=1000)
        for name in ("aaaaaaaa", "bbbbbbbb")
    )
    stream = Stream(10)
    here.write(stream)
    await here.flush()
    record: Any = await there.read("session", stream.name)
    await there.end(record, b"lost")
    stream.sent = 2
    here.write(stream)
    await here.flush()
    assert stream.is_ended_elsewhere
    ended = await here.read("session", stream.name)
    assert ended is not None
    assert (ended.is_over, ended.events) == (True, [*stream.events, (2, b"lost")])


# Lifetime of sessions, limits on their number, and sessions that several processes share


TTL = 1000.0
NO_PINGS = HttpOptions(sse_ping_interval=10 * TTL)


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
async def timed_server(work: Work, clock: LoopClock) -> Server:
    return make_server(work, storage=Memory(clock))


def sessions_of(client: Client) -> Any:
    return client.app.router()._service().sessions


async def test_listening_session_stays_alive(timed_server: Server, serve: Serve, clock: LoopClock) -> None:
    async with serve(timed_server, timeouts=Timeouts(session_idle=TTL), http=NO_PINGS) as client:
        session = await client.initialize()
        stream = await session.listen().head()
        for _ in range(8):
            clock.ahead += TTL / 4
            sessions_of(client)._sweep()
            await asyncio.sleep(0)
        clock.ahead += TTL / 4
        assert (await session.ask("ping").whole()).status == 200
        assert not stream.is_over


@pytest.mark.limit("time of a session in all")
async def test_session_max_age_ends_streams_and_calls(timed_server, serve, clock, work, monkeypatch) -> None:
    async with serve(timed_server, timeouts=Timeouts(session_max_age=60), http=NO_PINGS) as client:
        session = await client.initialize()
        stream, call = await session.listen().head(), session.call_tool("wait")
        await within(work.started.wait())
        sessions = sessions_of(client)
        clock.ahead += TTL
        sessions._sweep()
        assert not stream.is_over
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 60)
        sessions._sweep()
        assert await stream.messages() == []
        await within(work.cancelled.wait())
        assert await call.messages() == []
        assert len(sessions) == 0


async def test_evicted_session_is_restored(timed_server: Server, serve: Serve, clock: LoopClock) -> None:
    async with serve(timed_server, limits=Limits(max_sessions=1)) as client:
        first = await client.initialize()
        await first.ask("resources/subscribe", {"uri": "weather://fixed"}).whole()
        clock.ahead += 60
        second = await client.initialize()
        assert len(sessions_of(client)) == 1
        clock.ahead += 60
        stream = await first.listen().head()
        timed_server.notify_resource_updated("weather://fixed")
        assert (await stream.message())["params"]["uri"] == "weather://fixed"
        assert (await second.ask("ping").whole()).status == 503, "a session that listens has the only place"


async def test_busy_sessions_are_not_evicted(timed_server, serve, clock, work) -> None:
    async with serve(timed_server, limits=Limits(max_sessions=3), http=NO_PINGS) as client:
        listening, running, idle = [await client.initialize() for _ in range(3)]
        stream, call = await listening.listen().head(), running.call_tool("wait")
        await within(work.started.wait())
        clock.ahead += 60
        await client.initialize()
        sessions = sessions_of(client)
        assert {listening.id, running.id} < set(sessions._by_id)
        assert idle.id not in sessions._by_id
        work.gate.set()
        assert "result" in await call.response()
        assert not stream.is_over


class Shared(Memory):
    """Store with writes that can be delayed, and with reads, writes and publications that can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = self.loses_messages = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, key: str) -> Mapping[str, str]:
        self._check()
        return await super().read(key)

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await self.gate.wait()
        self._check()
        await super().write(key, changes, ttl)

    async def erase(self, key: str) -> None:
        self._check()
        await super().erase(key)

    async def publish(self, topic: str, message: str) -> None:
        self._check(self.loses_messages)
        await super().publish(topic, message)

    def _check(self, fails: bool = False) -> None:
        if self.refuses or fails:
            raise ConnectionError("the store is down")


@pytest.fixture
async def broker() -> Shared:
    return Shared()


@pytest.mark.limit("sessions")
async def test_concurrent_initialize_respects_max_sessions(broker: Shared, serve: Serve) -> None:
    limit = 5
    async with serve(make_server(storage=broker), limits=Limits(max_sessions=limit)) as client:
        broker.gate.clear()
        answers = [client.post(initialize()) for _ in range(4 * limit)]
        await settle()
        broker.gate.set()
        statuses = [(await answer.whole()).status for answer in answers]
        assert statuses.count(200) == len(sessions_of(client)) == limit
        assert statuses.count(503) == 3 * limit
        refused = next(answer for answer in answers if answer.status == 503)
        assert refused.error() == {
            "code": -32603,
            "message": "Too many sessions are open (5). Try again later",
        }
        assert int(refused.headers["retry-after"]) <= 60
        assert (await client.post(initialize()).whole()).status == 200, "refused requests have no place"


async def test_session_deleted_in_other_process_ends(broker: Shared, serve: Serve, work: Work) -> None:
    async with serve(make_server(work, storage=broker)) as here, serve(make_server(storage=broker)) as there:
        session = await here.initialize()
        streams = [await open_stream(session), await open_stream(session)]
        call = session.call_tool("wait")
        await within(work.started.wait())
        assert (await session.at(there).delete()).status == 204
        for stream in streams:
            assert await stream.messages() == []
        await within(work.cancelled.wait())
        await call.whole()
        assert len(sessions_of(here)) == 0


@each_row("request_", ["initialize", "DELETE", "elsewhere"])
async def test_failing_store_is_503(request_, broker, serve, caplog) -> None:
    async with serve(make_server(storage=broker)) as client, serve(make_server(storage=broker)) as other:
        session = await client.initialize()
        broker.refuses = True
        if request_ == "initialize":
            answer = await client.post(initialize()).whole()
        elif request_ == "DELETE":
            answer = await session.delete()
        else:
            answer = await session.at(other).ask("ping").whole()
        broker.refuses = False
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert b"is not available" in answer.body
        assert b"the store is down" not in answer.body
        assert "the shared store does not answer" in caplog.text
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


async def raise_down() -> None:
    raise ConnectionError("the store is down")


@each_row("request_", ["listen", "subscribe", "GET"])
async def test_subscription_without_bus_is_503(request_: str, serve: Serve) -> None:
    broker = Shared()
    uri = "towns://Oslo"
    async with serve(make_server(storage=broker)) as client:
        session = await client.initialize()
        requests = {
            "listen": lambda: client.ask(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}
            ),
            "subscribe": lambda: session.ask("resources/subscribe", {"uri": uri}),
            "GET": session.listen,
        }
        broker.listening = raise_down  # type: ignore[method-assign]
        answer = await requests[request_]().whole()
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        del broker.listening
        assert (await requests[request_]().head()).status == 200


async def test_unpublished_change_is_read_with_next_request(broker, serve, caplog) -> None:
    server = make_server(storage=broker)
    async with serve(make_server(storage=broker)) as there, serve(server) as here:
        session = await here.initialize()
        stream = await open_stream(session)
        broker.loses_messages = True
        await subscribe(session.at(there), "oslo")
        broker.loses_messages = False
        assert "other processes were not notified" in caplog.text
        await session.ask("ping").whole()
        server.notify_resource_updated("towns://oslo")
        assert uri_of(await stream.message()) == "oslo"
