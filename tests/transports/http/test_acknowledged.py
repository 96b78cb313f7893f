"""Who is told that they are subscribed hears of what changes elsewhere from then on, by whichever way they listen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.asgi_client import Serve
from tests.helpers.pipe import open_pipe, settle
from tests.helpers.shared_memory import Shared, make_server, subscribe, two_places
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

URI = "weather://Oslo"
FILTER = {"notifications": {"resourceSubscriptions": [URI]}}


class Slow(Shared):
    """A broker whose messages are heard only when its connection is up."""

    def __init__(self) -> None:
        super().__init__()
        self.up = asyncio.Event()
        self.asked = 0
        self.missed: list[Callable[[], None]] = []

    async def listening(self) -> None:
        self.asked += 1
        await self.up.wait()

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        if missed is not None:
            self.missed.append(missed)
        return super().subscribe(topic, lambda message: listener(message) if self.up.is_set() else None)


@pytest.fixture
def broker() -> Slow:
    return Slow()


async def test_a_listen_over_http_is_acknowledged_when_it_hears(serve: Serve, broker: Slow) -> None:
    elsewhere = make_server(broker)
    async with elsewhere.running(), serve(make_server(broker)) as client:
        stream = client.ask("subscriptions/listen", FILTER)
        await until(lambda: broker.asked)
        await settle()
        assert stream.status is None
        broker.up.set()
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        elsewhere.resource_updated(URI)
        assert (await stream.message())["params"]["uri"] == URI


async def test_a_listen_over_a_pipe_is_acknowledged_when_it_hears(schema_dir: Path, broker: Slow) -> None:
    elsewhere = make_server(broker)
    async with elsewhere.running(), open_pipe(make_server(broker), "2026-07-28", schema_dir) as pipe:
        pipe.start("subscriptions/listen", FILTER)
        await until(lambda: broker.asked)
        await settle()
        assert pipe.out.empty()
        broker.up.set()
        assert (await pipe.receive())["method"] == "notifications/subscriptions/acknowledged"
        elsewhere.resource_updated(URI)
        assert (await pipe.receive())["params"]["uri"] == URI


async def test_a_subscription_over_a_pipe_is_acknowledged_when_it_hears(
    schema_dir: Path, broker: Slow
) -> None:
    elsewhere = make_server(broker)
    async with elsewhere.running(), open_pipe(make_server(broker), "2025-11-25", schema_dir) as pipe:
        id_ = pipe.start("resources/subscribe", {"uri": URI})
        await until(lambda: broker.asked)
        await settle()
        assert pipe.out.empty()
        broker.up.set()
        assert (await pipe.receive())["id"] == id_
        elsewhere.resource_updated(URI)
        assert (await pipe.receive())["params"]["uri"] == URI


@pytest.mark.slow
async def test_a_stream_of_a_session_is_opened_when_it_hears(serve: Serve, broker: Slow) -> None:
    async with two_places(serve, broker) as (elsewhere, session, there):
        subscribing = there.ask("resources/subscribe", {"uri": URI})
        await until(lambda: broker.asked)
        assert subscribing.status is None
        broker.up.set()
        assert (await subscribing.whole()).status == 200
        broker.up.clear()
        asked = broker.asked
        stream = there.listen()
        await until(lambda: broker.asked > asked)
        await settle()
        assert stream.status is None
        broker.up.set()
        assert await stream.event() is not None
        elsewhere.resource_updated(URI)
        assert (await stream.message())["params"]["uri"] == URI
        assert (await session.delete()).status == 204
        assert await stream.event() is None, "its end is heard, too"


@pytest.mark.parametrize("way", ["listen", "subscribe", "GET"])
async def test_where_nothing_can_be_heard_nothing_is_acknowledged(
    way: str, serve: Serve, broker: Slow
) -> None:
    broker.up.set()
    async with serve(make_server(broker)) as client:
        session = await client.initialize()
        broker.listening = down  # type: ignore[method-assign]
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


async def down() -> None:
    raise ConnectionError("the store is down")


async def test_a_refused_subscription_over_a_pipe_can_be_asked_for_again(
    schema_dir: Path, broker: Slow
) -> None:
    broker.listening = down  # type: ignore[method-assign]
    for revision, method, params in (
        ("2025-11-25", "resources/subscribe", {"uri": URI}),
        ("2026-07-28", "subscriptions/listen", FILTER),
    ):
        server = make_server(broker)
        async with open_pipe(server, revision, schema_dir) as pipe:
            assert (await pipe.error(method, params))["code"] == -32603
            del broker.listening
            broker.up.set()
            pipe.start(method, params)
            await pipe.receive()
            server.resource_updated(URI)
            assert (await pipe.receive())["params"]["uri"] == URI
        broker.listening = down  # type: ignore[method-assign]


async def test_who_missed_something_is_told_of_all_that_it_listens_to(serve: Serve, broker: Slow) -> None:
    broker.up.set()
    async with serve(make_server(broker)) as client:
        filters: dict[str, Any] = {
            "toolsListChanged": True,
            "resourceSubscriptions": [URI, "weather://{town}"],
        }
        stream = client.ask("subscriptions/listen", {"notifications": filters})
        await stream.message()
        for missed in broker.missed:
            missed()
        told = [await stream.message() for _ in range(3)]
        assert sorted((each["method"], each["params"].get("uri", "")) for each in told) == [
            ("notifications/resources/updated", URI),
            ("notifications/resources/updated", "weather://{town}"),
            ("notifications/tools/list_changed", ""),
        ]


async def test_a_session_that_missed_something_looks_again(serve: Serve, broker: Slow) -> None:
    broker.up.set()
    async with two_places(serve, broker) as (_, session, there):
        stream = there.listen()
        assert await stream.event() is not None
        broker.up.clear()
        assert (await session.delete()).status == 204
        await settle()
        assert not stream.is_over
        for missed in broker.missed:
            missed()
        while await stream.event() is not None:  # of lists, which may have changed
            pass
