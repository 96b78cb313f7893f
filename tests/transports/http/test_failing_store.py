"""A broker that cannot be reached: requests are put off, and what is open stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.shared_memory import (
    Shared,
    listen,
    make_server,
    next_town,
    say_changed,
    settle,
    subscribe,
    two_places,
)
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker() -> Shared:
    return Shared()


@pytest.mark.parametrize("method", ["initialize", "DELETE", "elsewhere"])
async def test_a_store_that_fails_is_a_busy_server_for_what_needs_it(
    method: str, broker: Shared, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """What opens or ends a session needs it, and so does one that nothing is known of here."""
    async with serve(make_server(broker)) as client, serve(make_server(broker)) as other:
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


async def test_a_session_that_is_known_goes_on(broker: Shared, serve: Serve) -> None:
    server = make_server(broker)
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "oslo")
        broker.refuses = True
        assert (await session.ask("ping").whole()).status == 200
        assert (await session.ask("resources/read", {"uri": "weather://oslo"}).whole()).status == 200
        stream = await listen(session)
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"
        broker.refuses = False
        assert (await session.delete()).status == 204
        assert (await session.ask("ping").whole()).status == 404


async def test_what_changes_meanwhile_is_known_to_others_later(
    broker: Shared, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.transports.http.sessions.session._PAUSE", 0.001)
    async with two_places(serve, broker) as (_, here, there):
        await subscribe(here, "rome")
        await there.ask("ping").whole()
        record = there.client.app.door()._begin().sessions._by_id[here.id].record
        broker.refuses = True
        for town in ("oslo", "bern"):
            await subscribe(here, town)
        await subscribe(here, "rome", "unsubscribe")
        stream = await listen(here)
        broker.refuses = False
        await until(lambda: "teller" in broker._records._entries[record.key].value)
        fields = await broker.read(record.key)
        process = here.client.app.door()._begin().environment.process
        assert fields == {
            "open": "1",
            "uri:weather://oslo": "1",
            "uri:weather://bern": "1",
            "teller": process,
        }
        assert (await there.ask("ping").whole()).status == 200
        assert record.fields == fields
        assert not stream.is_over


async def test_an_answer_for_another_process_is_to_come_again(broker: Shared, serve: Serve) -> None:
    async with two_places(serve, broker) as (_, here, there):
        await there.ask("ping").whole()
        broker.refuses = True
        answer = {"jsonrpc": "2.0", "id": "0123abcd-1", "result": {}}
        assert (await there.post(answer).whole()).status == 503
        broker.refuses = False
        assert (await there.post(answer).whole()).status == 400
        assert (await here.ask("ping").whole()).status == 200


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
        record = here.app.door()._begin().sessions._by_id[session.id].record
        broker.refuses = True
        await say_changed(broker, record)
        await settle(stream)
        assert "what others do to a session is not heard of" in caplog.text
        broker.refuses = False
        server.resource_updated("weather://oslo")
        assert await next_town(stream) == "oslo"
        await broker.erase(record.key)
        await say_changed(broker, record)
        assert await stream.messages() == [], "it is followed still"
