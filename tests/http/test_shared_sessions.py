"""A session that is served in two places at once hears in each what it was told in the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from asgi_client import Answer, Serve, Session
from mcpkit import MemoryBroker, Server
from work import Work

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen bytes and more"


class Shared(MemoryBroker):
    """A broker such as processes share: what is read is never what was read before, and it may take a while.

    Attributes:
        gate: Reads have to pass it, with what they have read.
        lock: Writes have to pass it, before they are made.
        followed: How many sessions are listened for.
        refuses: Whether it raises what a broker raises that cannot be reached.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.lock = asyncio.Event()
        self.lock.set()
        self.followed = 0
        self.refuses = False

    async def read(self, key: str) -> Mapping[str, str]:
        if self.refuses:
            raise ConnectionError("the store is down")
        record = dict(await super().read(key))
        await self.gate.wait()
        return record

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await self.lock.wait()
        await super().write(key, changes, ttl)

    async def publish(self, topic: str, message: str) -> None:
        if self.refuses:
            raise ConnectionError("the store is down")
        await super().publish(topic, message)

    def subscribe(self, topic: str, listener: Callable[[str], None]) -> Callable[[], None]:
        if "/session/" not in topic:
            return super().subscribe(topic, listener)
        self.followed += 1
        unsubscribe = super().subscribe(topic, listener)

        def leave() -> None:
            self.followed -= 1
            unsubscribe()

        return leave


@pytest.fixture
def broker() -> Shared:
    return Shared()


def make_server(broker: MemoryBroker, work: Work | None = None) -> Server:
    server = Server("weather", version="1", secret=SECRET, broker=broker)

    @server.tool
    async def wait() -> str:
        assert work is not None
        await work.wait()
        return "waited"

    @server.resource("weather://{town}")
    async def weather(town: str) -> str:
        return town

    return server


async def subscribe(session: Session, town: str, verb: str = "subscribe") -> None:
    assert (await session.ask(f"resources/{verb}", {"uri": f"weather://{town}"}).whole()).status == 200


async def listen(session: Session) -> Answer:
    stream = session.listen()
    assert await stream.event() is not None  # the one that has no data
    return stream


async def next_town(stream: Answer) -> str:
    return str((await stream.message())["params"]["uri"]).removeprefix("weather://")


async def test_a_stream_hears_of_what_is_subscribed_to_elsewhere(broker: Shared, serve: Serve) -> None:
    server = make_server(broker)
    async with serve(make_server(broker)) as there, serve(server) as here:
        session = await here.initialize()
        stream = await listen(session)
        await subscribe(session.at(there), "oslo")
        await settle(stream)
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"


async def test_a_stream_hears_no_more_of_what_is_unsubscribed_from_elsewhere(
    broker: Shared, serve: Serve
) -> None:
    server = make_server(broker)
    async with serve(make_server(broker)) as there, serve(server) as here:
        session = await here.initialize()
        await subscribe(session, "oslo")
        await subscribe(session, "rome")
        stream = await listen(session)
        await subscribe(session.at(there), "oslo", "unsubscribe")
        await settle(stream)
        server.resource_updated("weather://oslo")
        server.resource_updated("weather://rome")
        assert await next_town(stream) == "rome"


async def test_a_session_that_is_deleted_elsewhere_ends_here(
    broker: Shared, serve: Serve, work: Work
) -> None:
    async with serve(make_server(broker, work)) as here, serve(make_server(broker)) as there:
        session = await here.initialize()
        streams = [await listen(session), await listen(session)]
        call = session.call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
        assert (await session.at(there).delete()).status == 204
        for stream in streams:
            assert await stream.messages() == []
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await call.whole()
        assert len(here.app._begin().sessions) == 0


async def test_a_session_from_elsewhere_that_is_deleted_there_ends_here(serve: Serve) -> None:
    """The broker here is not that session's home, and yet the one that is shared."""
    first = Shared()
    shared = Shared()
    async with serve(make_server(first)) as before:
        session = await before.initialize()
    async with serve(make_server(shared)) as here, serve(make_server(shared)) as there:
        stream = await listen(session.at(here))
        assert (await session.at(there).delete()).status == 204
        assert await stream.messages() == []
        assert (await session.at(here).ask("ping").whole()).status == 404


async def test_another_thread_is_elsewhere_too(serve: Serve) -> None:
    broker = MemoryBroker()
    server = make_server(broker)
    async with serve(server) as here:
        session = await here.initialize()
        stream = await listen(session)

        async def in_another_loop(does: Callable[[Session], Awaitable[object]]) -> None:
            async with serve(make_server(broker)) as there:
                await does(session.at(there))

        await asyncio.to_thread(asyncio.run, in_another_loop(lambda session: subscribe(session, "oslo")))
        await settle(stream)
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"
        await asyncio.to_thread(asyncio.run, in_another_loop(lambda session: session.delete()))
        assert await stream.messages() == []


async def test_a_session_is_followed_as_long_as_it_listens(broker: Shared, serve: Serve) -> None:
    async with serve(make_server(broker)) as client:
        session, other = await client.initialize(), await client.initialize()
        await subscribe(session, "oslo")
        assert broker.followed == 0
        streams = [await listen(session), await listen(session), await listen(other)]
        assert broker.followed == 2
        for stream in streams[:2]:
            stream.disconnect()
            await stream.whole()
        assert broker.followed == 1
        await listen(session)
        assert (await other.delete()).status == 204
        assert broker.followed == 1
    assert broker.followed == 0
    assert broker._listeners == {}


async def test_what_is_subscribed_to_at_the_same_time_is_all_told(broker: Shared, serve: Serve) -> None:
    """A record that was asked for before a change made here was written says nothing of that change."""
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        broker.gate.clear()
        asked = [
            session.ask("resources/subscribe", {"uri": f"weather://{town}"}) for town in ("oslo", "rome")
        ]
        await asyncio.sleep(0)
        broker.gate.set()
        for answer in asked:
            assert (await answer.whole()).status == 200
        server.resource_updated("weather://oslo")
        server.resource_updated("weather://rome")
        stream = await listen(session)
        assert [await next_town(stream), await next_town(stream)] == ["oslo", "rome"]


async def test_what_is_being_written_is_not_taken_for_missing(broker: Shared, serve: Serve) -> None:
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        broker.lock.clear()
        asked = session.ask("resources/subscribe", {"uri": "weather://oslo"})
        assert (await session.ask("ping").whole()).status == 200
        broker.lock.set()
        assert (await asked.whole()).status == 200
        server.resource_updated("weather://oslo")
        assert await next_town(await listen(session)) == "oslo"


async def test_what_happens_during_a_look_at_the_store_is_looked_at_too(broker: Shared, serve: Serve) -> None:
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        stream = await listen(session)
        key = client.app._begin().sessions._by_id[session.id].key
        broker.gate.clear()
        await broker.publish(key, "changed")
        await settle(stream)
        await broker.write(key, {"uri:weather://oslo": "1"}, 60)
        await broker.publish(key, "changed")
        await settle(stream)
        broker.gate.set()
        await settle(stream)
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"


async def test_what_cannot_be_published_is_known_from_the_next_request_on(
    broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(broker)
    async with serve(make_server(broker)) as there, serve(server) as here:
        session = await here.initialize()
        stream = await listen(session)
        publish, broker.publish = broker.publish, refuse  # type: ignore[method-assign]  # it fails
        await subscribe(session.at(there), "oslo")
        broker.publish = publish  # type: ignore[method-assign]  # as it was
        assert "others do not hear" in caplog.text
        await session.ask("ping").whole()
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"


async def refuse(_topic: str, _message: str) -> None:
    raise ConnectionError("the store is down")


async def test_a_store_that_fails_ends_nothing(
    broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(broker)
    async with serve(server) as here:
        session = await here.initialize()
        await subscribe(session, "oslo")
        stream = await listen(session)
        sessions = here.app._begin().sessions
        broker.refuses = True
        await MemoryBroker.publish(broker, sessions._by_id[session.id].key, "changed")
        await settle(stream)
        assert "what others do to a session is not heard of" in caplog.text
        broker.refuses = False
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"
        await MemoryBroker.delete(broker, sessions._by_id[session.id].key)
        await MemoryBroker.publish(broker, sessions._by_id[session.id].key, "changed")
        assert await stream.messages() == [], "it is followed still"


async def settle(stream: Answer) -> None:
    """Let what was published be heard: reading a store that is in memory takes a few turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not stream.is_over
