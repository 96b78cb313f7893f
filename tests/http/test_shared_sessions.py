"""A session that is served in two places at once hears in each what it was told in the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from asgi_client import Answer, Client, Serve, Session, initialize, lifespan
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


async def test_a_session_that_ends_while_it_is_looked_for_leaves_nothing(
    broker: Shared, serve: Serve
) -> None:
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        service = client.app._begin()
        live = service.sessions._by_id[session.id]
        await broker.write(live.key, {"uri:weather://oslo": "1"}, 60)  # as another process does
        broker.gate.clear()
        answer = session.ask("ping")
        await settle(answer)
        await service.sessions.end(live)
        broker.gate.set()
        assert (await answer.whole()).status == 404
        assert service.changes._wants == {}


# Streams in several processes


async def test_the_newest_stream_is_told_and_no_other(broker: Shared, serve: Serve) -> None:
    """Each message goes to one of the streams that are connected (basic/transports, "Multiple Connections")."""
    servers = [make_server(broker), make_server(broker)]
    async with serve(servers[0]) as here, serve(servers[1]) as there:
        session = await here.initialize()
        for town in ("oslo", "rome", "bern"):
            await subscribe(session, town)
        old = await listen(session)
        new = await listen(session.at(there))
        await settle(old)
        servers[0].resource_updated("weather://oslo")  # the other process hears of it
        assert await next_town(new) == "oslo"
        await settle(old)
        newest = await listen(session)
        await settle(new)
        servers[0].resource_updated("weather://rome")
        assert await next_town(newest) == "rome"
        newest.disconnect()
        await newest.whole()
        await settle(new)
        servers[0].resource_updated("weather://bern")
        assert await next_town(old) == "bern"
        await settle(new)
        assert b"oslo" not in old.body
        assert b"rome" not in old.body + new.body
        assert b"bern" not in new.body
        await here.aclose()


async def test_one_of_those_that_are_left_is_told_when_the_newest_is_lost(
    broker: Shared, serve: Serve
) -> None:
    servers = [make_server(broker) for _ in range(3)]
    async with serve(servers[0]) as one, serve(servers[1]) as two, serve(servers[2]) as three:
        session = await one.initialize()
        await subscribe(session, "oslo")
        left = [await listen(session), await listen(session.at(two))]
        newest = await listen(session.at(three))
        await settle(left[0])
        newest.disconnect()
        await newest.whole()
        await settle(left[0])
        servers[0].resource_updated("weather://oslo")
        await settle(left[0])
        assert sum(stream.body.count(b"weather://oslo") for stream in left) == 1
        for client in (one, two):
            await client.aclose()


async def test_a_stream_is_told_again_when_the_process_of_the_newer_one_ends(
    broker: Shared, serve: Serve, schema_dir: Path
) -> None:
    server = make_server(broker)
    async with serve(server) as here:
        session = await here.initialize()
        await subscribe(session, "oslo")
        old = await listen(session)
        app = make_server(broker).asgi(grace=0)
        async with lifespan(app):
            new = await listen(session.at(Client(app, schema_dir)))
            await settle(old)
        await new.whole()
        await settle(old)
        server.resource_updated("weather://oslo")
        assert await next_town(old) == "oslo"


async def test_what_changes_while_no_stream_is_open_is_told_whoever_was_told_before(
    broker: Shared, serve: Serve
) -> None:
    server = make_server(broker)
    async with serve(make_server(broker)) as there, serve(server) as here:
        session = await here.initialize()
        await subscribe(session, "oslo")
        stream = await listen(session.at(there))
        stream.disconnect()
        await stream.whole()
        server.resource_updated("weather://oslo")
        await session.ask("ping").whole()
        assert await next_town(await listen(session)) == "oslo"


# Stores that fail


@pytest.mark.parametrize("method", ["initialize", "POST", "GET", "DELETE"])
async def test_a_store_that_fails_is_a_busy_server(
    method: str, broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(make_server(broker)) as client:
        session = await client.initialize()
        broker.refuses = True
        if method == "initialize":
            answer = await client.post(initialize()).whole()
        elif method == "POST":
            answer = await session.ask("ping").whole()
        else:
            answer = await client.open(method, headers=session.headers()).whole()
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert b"cannot be reached" in answer.body
        assert b"the store is down" not in answer.body
        assert "the broker does not answer" in caplog.text
        broker.refuses = False
        assert (await session.ask("ping").whole()).status == 200


async def test_a_stream_that_the_store_is_not_told_of_is_not_open(
    broker: Shared, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(make_server(broker)) as client:
        session = await client.initialize()

        async def fail(*_: object) -> None:
            raise ConnectionError("the store is down")

        monkeypatch.setattr(broker, "write", fail)
        assert (await session.listen().whole()).status == 503
        assert client.app._begin().sessions.listening == 0
        monkeypatch.undo()
        assert (await session.listen().head()).status == 200


@pytest.mark.parametrize("stateless", [False, True])
async def test_a_channel_that_fails_is_no_store_that_fails(
    stateless: bool, broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(make_server(broker), stateless=stateless) as client:
        app = client.app

        async def broken(
            scope: Mapping[str, object], _receive: object, send: Callable[..., Awaitable[None]]
        ) -> None:
            async def receive() -> None:
                raise ConnectionResetError("the client is gone")

            await app(scope, receive, send)

        client.app = broken
        answer = client.open("POST", headers={"content-type": "application/json"})
        await asyncio.wait({answer.task})
        client.opened.remove(answer)
        assert answer.task.exception() is None
        assert answer.status is None
        assert "broker" not in caplog.text


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
