"""How often a process looks at the record of a session that it knows, where a look is a way to another machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from mcpkit import Memory, Server
from mcpkit.transports.http.sessions.record import Record
from tests.helpers.asgi_client import Serve, Session
from tests.helpers.session_server import make_server
from tests.helpers.waiting import LoopClock, until
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


class Far(Memory):
    """A store that counts how often a session is looked at, and can be made not to answer, or not to be heard.

    Attributes:
        looks: How often.
        refuses: Whether it raises what a store raises that cannot be reached.
        hangs: Whether it does not answer at all.
        is_deaf: Whether nothing is heard that is published from now on.
    """

    is_lasting = True

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.refuses = self.hangs = self.is_deaf = False
        self.missed: list[Callable[[], None]] = []

    async def read(self, key: str) -> Mapping[str, str]:
        self.looks += "/session/" in key
        if self.refuses:
            raise ConnectionError("the store is down")
        if self.hangs and "/session/" in key:
            await asyncio.Event().wait()
        return dict(await super().read(key))

    async def publish(self, topic: str, message: str) -> None:
        if self.refuses:
            raise ConnectionError("the store is down")
        if not self.is_deaf:
            await super().publish(topic, message)

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        if missed is not None and topic.endswith("/sessions"):
            self.missed.append(missed)
        return super().subscribe(topic, listener, missed)


@pytest.fixture
def store() -> Far:
    return Far()


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


@asynccontextmanager
async def two(serve: Serve, store: Far, work: Work) -> AsyncIterator[tuple[Session, Session]]:
    """Open a session, have two processes know it, and give it as either of them does."""

    def make() -> Server:
        return make_server(work, shared=store)

    async with serve(make()) as there, serve(make()) as here:
        session = await here.initialize()
        for at in (session, session.at(there)):
            for _ in range(2):
                await ping(at)
        yield session, session.at(there)
        for client in (here, there):
            client.app.door()._begin().sessions._freshness.close()


async def ping(session: Session) -> int | None:
    return (await session.ask("ping").whole()).status


async def pass_time(clock: LoopClock, seconds: float) -> None:
    """Let time pass, in steps in which all has its turn that is due."""
    for _ in range(round(seconds / 0.1)):
        clock.ahead += 0.1
        for _ in range(5):
            await asyncio.sleep(0)


def record(session: Session) -> Record:
    found: Record = session.client.app.door()._begin().sessions._by_id[session.id].record
    return found


async def test_calls_need_no_look(serve: Serve, store: Far, work: Work, clock: LoopClock) -> None:
    async with two(serve, store, work) as (here, _):
        before = store.looks
        for _ in range(40):
            await pass_time(clock, 0.2)
            for _ in range(5):
                assert await ping(here) == 200
        assert store.looks - before <= 1, "until it is known that all is heard"


async def test_where_nothing_is_heard_there_is_a_look_a_second(
    serve: Serve, store: Far, work: Work, clock: LoopClock
) -> None:
    async with two(serve, store, work) as (here, _):
        store.is_deaf = True
        await pass_time(clock, 1.5)
        before = store.looks
        for _ in range(40):
            await pass_time(clock, 0.2)
            for _ in range(5):
                assert await ping(here) == 200
        assert 6 <= store.looks - before <= 10


async def test_an_end_elsewhere_is_known_as_soon_as_it_is_heard(serve: Serve, store: Far, work: Work) -> None:
    async with two(serve, store, work) as (here, there):
        assert (await there.delete()).status == 204
        assert await ping(here) == 404


async def test_an_end_elsewhere_is_known_within_a_second_though_it_is_not_heard(
    serve: Serve, store: Far, work: Work, clock: LoopClock
) -> None:
    async with two(serve, store, work) as (here, there):
        for _ in range(12):
            await pass_time(clock, 0.2)
            assert await ping(here) == 200
        await store.erase(record(there).key)
        assert await ping(here) == 200
        store.is_deaf = True
        await pass_time(clock, 1.1)
        assert await ping(here) == 404


async def test_a_change_elsewhere_is_looked_at_once(serve: Serve, store: Far, work: Work) -> None:
    async with two(serve, store, work) as (here, there):
        await here.ask("logging/setLevel", {"level": "alert"}).whole()
        assert record(there).is_stale
        before = store.looks
        for _ in range(10):
            assert await ping(there) == 200
        assert store.looks == before + 1
        assert record(there).fields["level"] == "alert"


@pytest.mark.slow
async def test_what_may_have_been_missed_is_looked_at(serve: Serve, store: Far, work: Work) -> None:
    async with two(serve, store, work) as (here, there):
        store.is_deaf = True
        await here.ask("logging/setLevel", {"level": "alert"}).whole()
        assert not record(there).is_stale
        for missed in store.missed:
            missed()
        await until(lambda: record(there).is_stale)
        assert await ping(there) == 200
        assert record(there).fields["level"] == "alert"


@pytest.mark.parametrize("way", ["refuses", "hangs"])
async def test_a_store_that_is_away_is_not_asked_with_each_request(
    way: str, serve: Serve, store: Far, work: Work, clock: LoopClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.transports.http.sessions.freshness._PATIENCE", 0.01)
    async with two(serve, store, work) as (here, _):
        await pass_time(clock, 3)
        store.is_deaf = True
        setattr(store, way, True)
        before = store.looks
        for _ in range(20):
            assert await ping(here) == 200
        assert store.looks == before + 1
        if way == "refuses":
            for _ in range(10):
                await pass_time(clock, 1.1)
                assert await ping(here) == 200
            assert store.looks == before + 1, "it is asked beside the requests"
        setattr(store, way, False)
        await pass_time(clock, 1.1)
        assert await ping(here) == 200
        assert store.looks == before + 2
