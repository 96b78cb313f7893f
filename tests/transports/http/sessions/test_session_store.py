"""Shared state of sessions: records that are read and written at the same time, messages, and stored events."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit.protocol.revisions import Client
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
from tests.helpers.raw_client import Serve
from tests.helpers.servers.full import make_server
from tests.helpers.waiting import until

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
        client=Client({"name": "test", "version": "1"}, {}),
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
