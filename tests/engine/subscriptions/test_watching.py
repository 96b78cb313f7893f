"""`watch=`: the author's functions that run while somebody is subscribed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, LogHandler, RegistrationError, Registry, Server, resource
from mcpkit.components.context import current_context
from mcpkit.components.resources import Resource, ResourceTemplate
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.state.change import Change
from mcpkit.testing import connect
from tests.helpers.listening import Ear, hearing, updated
from tests.helpers.pipe import META, open_pipe, settle
from tests.helpers.watched import Source, read, station, watched_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source) -> Server:
    return watched_server(source)


async def test_it_starts_with_the_first_subscriber_and_stops_after_the_last(
    server: Server, source: Source
) -> None:
    changes, one, other = server.engine.hubs.here(), Ear(), Ear()
    await settle()
    assert source.story == []
    changes.want(one, updated("data://x"))
    changes.want(other, updated("data://x"))
    await source.update()
    assert one.uris == other.uris == ["data://x"]
    changes.unwant(one, updated("data://x"))
    await source.update()
    assert len(other.uris) == 2
    changes.forget(other)
    await settle()
    assert source.story == ["start fixed", "stop fixed"]
    assert len(one.uris) == 1
    changes.want(one, updated("data://x"))
    await source.update()
    assert len(one.uris) == 2
    changes.forget(one)
    await settle()
    assert source.story == ["start fixed", "stop fixed"] * 2


async def test_with_the_variables_it_runs_for_each_uri_that_is_subscribed_to(
    server: Server, source: Source
) -> None:
    changes, ear = server.engine.hubs.here(), Ear()
    for uri in ("data://stations/1", "data://stations/2", "data://stations/{id}", "data://unknown"):
        changes.want(ear, updated(uri))
    await settle()
    assert source.running == [1, 2]
    await source.update()
    assert ear.uris == ["data://stations/1", "data://stations/2"]
    changes.unwant(ear, updated("data://stations/1"))
    await settle()
    assert source.running == [2]
    changes.forget(ear)
    await settle()
    assert source.running == []


async def test_a_uri_that_the_function_would_refuse_is_not_watched(server: Server, source: Source) -> None:
    ear = Ear()
    server.engine.hubs.here().want(ear, updated("data://stations/many"))
    await settle()
    assert source.story == []
    server.engine.hubs.here().forget(ear)


async def test_it_takes_the_variables_that_it_names() -> None:
    seen: list[Any] = []

    async def by_city(city: str) -> AsyncIterator[None]:
        seen.append(city)
        yield

    async def by_all(**variables: Any) -> AsyncIterator[None]:
        seen.append(variables)
        yield

    def street(city: str, number: int) -> str:
        return city

    server, ear = Server("s"), Ear()
    server.resource("a://{city}/{number}", watch=by_city)(street)
    server.resource("b://{city}/{number}", watch=by_all)(street)
    server.engine.hubs.here().want(ear, updated("a://Bonn/7"))
    server.engine.hubs.here().want(ear, updated("b://Bonn/7"))
    await settle()
    assert seen == ["Bonn", {"city": "Bonn", "number": 7}]
    assert ear.uris == ["a://Bonn/7", "b://Bonn/7"]
    server.engine.hubs.here().forget(ear)


async def test_without_the_variables_it_runs_once_and_says_what_was_updated(source: Source) -> None:
    server, changes_heard = Server("s"), Ear()
    server.resource("data://stations/{id}", watch=source.fixed)(station)
    changes, ear, every = server.engine.hubs.here(), Ear(), Ear()
    changes.want(ear, updated("data://stations/1"))
    changes.want(ear, updated("data://stations/2"))
    changes.want(every, updated("data://stations/{id}"))
    changes.want(changes_heard, Change("resources"))
    await source.update("data://stations/2")
    await source.update("data://stations/3")
    assert ear.uris == ["data://stations/2"]
    assert every.uris == ["data://stations/2", "data://stations/3"]
    await source.update("data://stations/")
    assert ear.uris[1:] == ["data://stations/1", "data://stations/2"]
    assert every.uris[2:] == ["data://stations/1", "data://stations/2"]
    assert changes_heard.heard == []
    await source.update(None)
    assert changes_heard.heard == [Change("resources")]
    changes.forget(ear)
    await settle()
    assert source.running == ["fixed"]
    changes.forget(every)
    await settle()
    assert source.story == ["start fixed", "stop fixed"]


async def test_the_list_is_watched_where_a_template_has_entries(source: Source) -> None:
    server, ear = Server("s"), Ear()
    server.resource("data://stations/{id}", watch=source.fixed, entries=list)(station)
    server.resource("data://others/{id}", watch=source.fixed)(station)
    server.engine.hubs.here().want(ear, Change("resources"))
    await source.update(None)
    assert source.story == ["start fixed"]
    assert ear.heard == [Change("resources")]
    server.engine.hubs.here().forget(ear)
    await settle()
    assert source.running == []


async def test_under_a_prefix_it_tells_of_the_uris_that_clients_know(source: Source) -> None:
    inner, outer, server = Registry(), Registry(), Server("s")
    inner.resource("data://stations/{id}", watch=source.fixed)(station)
    inner.resource("data://x", watch=source.fixed)(read)
    inner.resource("data://each/{id}", watch=source.each)(station)
    outer.include(inner, prefix="stations")
    server.include(outer, prefix="us")
    ear = Ear()
    for uri in ("data://us/stations/stations/1", "data://us/stations/x", "data://us/stations/each/7"):
        server.engine.hubs.here().want(ear, updated(uri))
    await settle()
    assert source.running == ["fixed", "fixed", 7]
    await source.update("data://stations/1")
    assert ear.uris == ["data://us/stations/stations/1", "data://us/stations/x", "data://us/stations/each/7"]
    server.engine.hubs.here().forget(ear)


async def test_what_is_marked_may_be_watched(source: Source) -> None:
    class Weather:
        @resource("data://now", watch=source.fixed)
        def now(self) -> str:
            return ""

    server, ear = Server("s"), Ear()
    server.include(Weather())
    server.engine.hubs.here().want(ear, updated("data://now"))
    await source.update()
    assert ear.uris == ["data://now"]
    server.engine.hubs.here().forget(ear)


async def test_what_is_registered_later_is_watched_and_what_is_removed_is_not(source: Source) -> None:
    server, ear = Server("s"), Ear()
    server.engine.hubs.here().want(ear, updated("data://x"))
    server.engine.hubs.here().want(ear, updated("data://stations/1"))
    server.resource("data://x", watch=source.fixed)(read)
    server.resource("data://stations/{id}", watch=source.each)(station)
    await settle()
    assert source.running == ["fixed", 1]
    server.resources.disable("data://x")
    server.resource_templates.remove("data://stations/{id}")
    await settle()
    assert source.running == []
    server.resources.enable("data://x")
    await settle()
    assert source.running == ["fixed"]
    server.resource("data://x", replace=True)(read)
    await settle()
    assert source.running == []
    assert ear.heard == []
    server.engine.hubs.here().forget(ear)


async def test_one_that_runs_is_not_disturbed_by_other_registrations(server: Server, source: Source) -> None:
    ear = Ear()
    server.engine.hubs.here().want(ear, updated("data://x"))
    await settle()
    server.resource("data://new")(read)
    server.resource_templates.remove("data://stations/{id}")
    await settle()
    assert source.story == ["start fixed"]
    server.engine.hubs.here().forget(ear)


# Over the wire


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_a_session_is_told_of_what_the_watch_yields(
    server: Server, source: Source, schema_dir: Path, revision: str
) -> None:
    async with open_pipe(server, revision, schema_dir) as pipe:
        await pipe.result("resources/subscribe", {"uri": "data://x"})
        await source.update()
        (message,) = await pipe.answered()
        assert message["method"] == "notifications/resources/updated"
        await pipe.result("resources/unsubscribe", {"uri": "data://x"})
        await settle()
        assert source.running == []
        await pipe.result("resources/subscribe", {"uri": "data://stations/1"})
        await settle()
        assert source.running == [1]
    await settle()
    assert source.running == []  # the client just went away
    assert hearing(server) == 0


async def test_a_stream_is_told_of_what_the_watch_yields(
    server: Server, source: Source, schema_dir: Path
) -> None:
    async with open_pipe(server, "2026-07-28", schema_dir) as pipe:
        for id_ in ("a", "b"):
            wanted = {"resourceSubscriptions": ["data://x"]}
            pipe.send(pipe.message(id_, "subscriptions/listen", {"notifications": wanted}))
        await pipe.answered()
        await source.update()
        messages = await pipe.answered()
        assert [message["params"]["_meta"][META + "subscriptionId"] for message in messages] == ["a", "b"]
        pipe.cancel("a")
        await settle()
        assert source.running == ["fixed"]
        pipe.cancel("b")
        await settle()
        assert source.running == []


# What is refused when it is registered


async def plain() -> None: ...


def generator() -> Any:
    yield


async def asks(station: str) -> AsyncIterator[None]:
    yield


async def by_position(id: str, /) -> AsyncIterator[None]:
    yield


async def may_ask(id: str = "", more: int = 1, *rest: Any) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("uri", ["data://x", "data://stations/{id}"])
@pytest.mark.parametrize(
    ("watch", "message"),
    [
        (plain, "watch= needs an async generator function"),
        (generator, "watch= needs an async generator function"),
        ("watch", "watch= needs an async generator function"),
        (asks, "no value for the parameter 'station' of watch="),
    ],
)
def test_what_cannot_watch_is_refused(uri: str, watch: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").resource(uri, watch=watch)(station if "{" in uri else read)


def test_what_can_watch_is_taken(source: Source) -> None:
    assert Resource(read, "data://x", watch=may_ask).watch is may_ask
    assert ResourceTemplate(station, "data://{id}", watch=may_ask).watched.variables == ("id",)
    assert ResourceTemplate(station, "data://{id}", watch=source.each).watched.variables == ("id",)
    assert ResourceTemplate(station, "data://{id}", watch=partial(asks, "x")).watched.variables == ()
    with pytest.raises(RegistrationError, match="its variables are id"):
        ResourceTemplate(station, "data://{id}", watch=asks)


async def test_a_watch_is_no_part_of_the_request_that_began_it() -> None:
    server, heard = Server("s"), asyncio.Event()
    contexts: list[Context] = []
    logger = logging.getLogger("author of the watch")
    logger.setLevel(logging.INFO)
    handler = LogHandler()
    logger.addHandler(handler)

    async def watch() -> AsyncGenerator[None]:
        with suppress(RuntimeError):
            contexts.append(current_context())
        logger.info("for those who run the server")
        heard.set()
        await asyncio.Event().wait()
        yield

    @server.resource("data://a", watch=watch)
    def data(ctx: Context) -> str:
        return ""

    @server.middleware("resources/subscribe")
    async def linger(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        await asyncio.wait_for(heard.wait(), 10)
        return result

    try:
        async with connect(server, revision="2025-11-25") as client:
            await client.request("resources/subscribe", {"uri": "data://a"})
            assert contexts == []
            assert client.notifications == []
    finally:
        logger.removeHandler(handler)
