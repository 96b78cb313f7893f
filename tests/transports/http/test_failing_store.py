"""A broker that cannot be reached: requests are put off, and what is open stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from asgi_client import Serve, initialize
from mcpkit import Memory
from shared_memory import Shared, listen, make_server, next_town, settle, subscribe, two_places

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker() -> Shared:
    return Shared()


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
        assert "the shared store does not answer" in caplog.text
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
        assert client.app.door()._begin().environment.streams.taken == 0
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
        assert "shared store" not in caplog.text


async def test_what_cannot_be_published_is_known_from_the_next_request_on(
    broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_places(serve, broker) as (server, here, there):
        stream = await listen(here)
        publish, broker.publish = broker.publish, refuse  # type: ignore[method-assign]  # it fails
        await subscribe(there, "oslo")
        broker.publish = publish  # type: ignore[method-assign]  # as it was
        assert "others do not hear" in caplog.text
        await here.ask("ping").whole()
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
        sessions = here.app.door()._begin().sessions
        broker.refuses = True
        await Memory.publish(broker, sessions._by_id[session.id].record.key, "changed")
        await settle(stream)
        assert "what others do to a session is not heard of" in caplog.text
        broker.refuses = False
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"
        await Memory.erase(broker, sessions._by_id[session.id].record.key)
        await Memory.publish(broker, sessions._by_id[session.id].record.key, "changed")
        assert await stream.messages() == [], "it is followed still"
