"""Sessions that several processes share: records, bus and failures of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from mcpkit import Memory, Server
from tests.helpers.raw_client import (
    Serve,
    Session,
    initialize,
    open_stream,
    subscribe,
    uri_of,
)
from tests.helpers.servers.full import make_server
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


class Shared(Memory):
    """Store whose reads, writes and publications can be delayed or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.lock = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.lock.set()
        self.refuses = False

    async def read(self, key: str) -> Mapping[str, str]:
        self._check()
        record = dict(await super().read(key))
        await self.gate.wait()
        return record

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        self._check()
        await self.lock.wait()
        await super().write(key, changes, ttl)

    async def erase(self, key: str) -> None:
        self._check()
        await super().erase(key)

    async def publish(self, topic: str, message: str) -> None:
        self._check()
        await super().publish(topic, message)

    def _check(self) -> None:
        if self.refuses:
            raise ConnectionError("the store is down")


@pytest.fixture
def broker() -> Shared:
    return Shared()


async def test_session_deleted_in_other_process_ends(broker: Shared, serve: Serve, work: Work) -> None:
    async with serve(make_server(work, shared=broker)) as here, serve(make_server(shared=broker)) as there:
        session = await here.initialize()
        streams = [await open_stream(session), await open_stream(session)]
        call = session.call("wait")
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
    async with serve(make_server(shared=broker)) as client, serve(make_server(shared=broker)) as other:
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
        assert b"cannot be reached" in answer.body
        assert b"the store is down" not in answer.body
        assert "the shared store does not answer" in caplog.text
        broker.refuses = False
        assert (await session.ask("ping").whole()).status == 200


async def test_known_session_survives_store_failure(broker: Shared, serve: Serve) -> None:
    server = make_server(shared=broker)
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "oslo")
        broker.refuses = True
        assert (await session.ask("ping").whole()).status == 200
        assert (await session.ask("resources/read", {"uri": "towns://oslo"}).whole()).status == 200
        stream = await open_stream(session)
        server.resource_updated("towns://oslo")
        assert uri_of(await stream.message()) == "oslo"
        broker.refuses = False
        assert (await session.delete()).status == 204
        assert (await session.ask("ping").whole()).status == 404


@asynccontextmanager
async def two_processes(serve: Serve, broker: Memory) -> AsyncIterator[tuple[Server, Session, Session]]:
    """Serve twice; yield the second server and one session at both."""
    server = make_server(shared=broker)
    async with serve(make_server(shared=broker)) as there, serve(server) as here:
        session = await here.initialize()
        yield server, session, session.at(there)


URI = "towns://Oslo"


FILTER = {"notifications": {"resourceSubscriptions": [URI]}}


@pytest.mark.parametrize("way", ["listen", "subscribe", "GET"])
async def test_subscription_without_bus_is_503(way: str, serve: Serve, broker: Shared) -> None:
    async with serve(make_server(shared=broker)) as client:
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
        publish, broker.publish = broker.publish, refuse  # type: ignore[method-assign]  # it fails
        await subscribe(there, "oslo")
        broker.publish = publish  # type: ignore[method-assign]  # as it was
        assert "others do not hear" in caplog.text
        await here.ask("ping").whole()
        server.resource_updated("towns://oslo")
        assert uri_of(await stream.message()) == "oslo"


async def refuse(_topic: str, _message: str) -> None:
    raise ConnectionError("the store is down")
