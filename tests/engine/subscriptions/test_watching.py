"""Functions of `watch=`: they run while clients are subscribed, and start again when they fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, LogHandler, RegistrationError, Server
from mcpkit.components.context import current_context
from mcpkit.engine.subscriptions import watching as module
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.state.change import Change
from mcpkit.testing import connect
from tests.helpers.pipe import Ear, hearing, open_pipe, settle, updated
from tests.helpers.watched import Source, read, station, watched_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source) -> Server:
    return watched_server(source)


async def test_watch_runs_from_the_first_subscriber_to_the_last(server: Server, source: Source) -> None:
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


async def test_watch_with_variables_runs_for_each_subscribed_uri(server: Server, source: Source) -> None:
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


async def test_watch_without_variables_runs_once_for_all_uris(source: Source) -> None:
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


# Over the wire


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_session_receives_updates_of_a_watch(
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


# What is refused when it is registered


async def plain() -> None: ...


def generator() -> Any:
    yield


async def asks(station: str) -> AsyncIterator[None]:
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
def test_watch_wrong_function_is_refused(uri: str, watch: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").resource(uri, watch=watch)(station if "{" in uri else read)


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
        async with connect(server, protocol_version="2025-11-25") as client:
            await client.request("resources/subscribe", {"uri": "data://a"})
            assert contexts == []
            assert client.notifications == []
    finally:
        logger.removeHandler(handler)


async def test_watch_receives_the_variables_it_names() -> None:
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


class Clock:
    """asyncio, but without the waiting."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    async def sleep(self, delay: float) -> None:
        self.delays.append(delay)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no watch wait before it starts again; say how long each would have."""
    clock = Clock()
    monkeypatch.setattr(module, "asyncio", clock)
    return clock.delays


async def test_one_that_raises_is_logged_and_started_again(
    source: Source, delays: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    server, ear = watched_server(source), Ear()
    server.engine.hubs.here().want(ear, updated("data://x"))
    for _ in range(8):
        await source.fail()
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert source.story == [*["start fixed", "stop fixed"] * 8, "start fixed"]
    assert "the watch of data://x failed; it restarts in 1 s" in caplog.text
    assert "OSError: the source is gone" in caplog.text
    await source.update()
    assert ear.uris == ["data://x"]
    await source.fail()
    assert delays[8:] == [1]
    server.engine.hubs.here().forget(ear)


async def test_one_that_returns_is_not_started_again() -> None:
    starts: list[None] = []

    async def watch() -> AsyncIterator[None]:
        starts.append(None)
        yield

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    server.engine.hubs.here().want(ear, updated("data://x"))
    await settle()
    assert len(starts) == 1
    server.engine.hubs.here().forget(ear)


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_watch_that_fails_or_ignores_closing_ends(
    is_stubborn: bool, caplog: pytest.LogCaptureFixture
) -> None:
    story: list[str] = []

    async def watch() -> AsyncIterator[None]:
        story.append("start")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not is_stubborn:
                raise OSError("cannot close") from None
            yield
        story.append("after the end")

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    server.engine.hubs.here().want(ear, updated("data://x"))
    await settle()
    server.engine.hubs.here().forget(ear)
    await settle()
    assert story == ["start"]
    assert ("the watch of data://x failed; it stopped" in caplog.text) is not is_stubborn
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mcpkit-watch")]


async def test_watch_starts_again_after_its_predecessor_has_cleaned_up() -> None:
    may_end = asyncio.Event()
    story: list[str] = []

    async def watch() -> AsyncIterator[None]:
        story.append("start")
        try:
            await asyncio.Event().wait()
            yield
        finally:
            await may_end.wait()
            story.append("stop")

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    changes = server.engine.hubs.here()
    for _ in range(3):
        changes.want(ear, updated("data://x"))
        await settle()
        changes.forget(ear)
        await settle()
    changes.want(ear, updated("data://x"))
    await settle()
    assert story == ["start"]
    may_end.set()
    await settle()
    assert story == ["start", "stop", "start"]
    changes.forget(ear)
    await settle()
    assert story == ["start", "stop", "start", "stop"]


async def test_uri_that_the_function_refuses_is_not_watched(server: Server, source: Source) -> None:
    ear = Ear()
    server.engine.hubs.here().want(ear, updated("data://stations/many"))
    await settle()
    assert source.story == []
    server.engine.hubs.here().forget(ear)
