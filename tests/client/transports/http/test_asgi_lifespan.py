"""The startup and the shutdown of an app that a client has."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from django.core.handlers.asgi import ASGIHandler
from litestar import Litestar, get
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.http import asgi_lifespan
from mcpkit.client.transports.http.asgi import AsgiTransport
from tests.helpers.raw_client import within
from tests.helpers.waiting import LoopClock, until

pytestmark = pytest.mark.anyio


class Life:
    """An app that says what its lifespan does.

    Attributes:
        seen: What it has done.
        tasks: The tasks that it was entered and left in.
    """

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.seen: list[str] = []
        self.tasks: list[object] = []
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.app = Starlette(routes=[Route("/", self.page)], lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[dict[str, str]]:
        self.seen.append("starting")
        self.tasks.append(asyncio.current_task())
        await self.may_start.wait()
        if self.failing == "startup":
            raise ValueError("no such table")
        async with anyio.create_task_group() as group:  # has to be left by the task that has entered it
            group.start_soon(asyncio.sleep, 0)
            self.seen.append("started")
            yield {"word": "here"}
        if self.failing == "shutdown":
            raise ValueError("no such table")
        self.tasks.append(asyncio.current_task())
        self.seen.append("ended")

    async def page(self, request: Request) -> PlainTextResponse:
        word = request.state.word
        request.state.word = "changed"
        return PlainTextResponse(word)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=AsgiTransport(self.app), base_url="http://localhost")


async def test_an_app_is_started_and_ended_with_its_client() -> None:
    life = Life()
    async with life.client() as client:
        assert life.seen == ["starting", "started"]
        assert [(await client.get("/")).text for _ in range(2)] == ["here", "here"]
    assert life.seen == ["starting", "started", "ended"]
    assert life.tasks[0] is life.tasks[1]


async def test_a_client_that_is_not_entered_starts_its_app_with_the_first_request() -> None:
    life = Life()
    client = life.client()
    assert {each.text for each in await asyncio.gather(client.get("/"), client.get("/"))} == {"here"}
    assert life.seen == ["starting", "started"]
    await client.aclose()
    assert life.seen == ["starting", "started", "ended"]


async def test_an_app_is_entered_in_one_task_and_left_in_another() -> None:
    life = Life()
    client = life.client()
    await asyncio.create_task(client.__aenter__())
    await asyncio.create_task(client.aclose())
    assert life.seen == ["starting", "started", "ended"]


async def test_clients_of_one_app_share_its_lifespan() -> None:
    life = Life()
    async with life.client() as first:
        async with life.client() as second:
            assert (await second.get("/")).text == "here"
        assert (await first.get("/")).text == "here"
        assert life.seen == ["starting", "started"]
    assert life.seen == ["starting", "started", "ended"]


async def test_an_app_that_has_been_closed_is_opened_again() -> None:
    life = Life()
    transport = AsgiTransport(life.app)
    for _ in range(2):
        async with transport:
            pass
    assert life.seen == ["starting", "started", "ended"] * 2


async def test_an_app_lives_in_each_event_loop_of_its_own() -> None:
    life = Life()

    async def use() -> None:
        async with life.client() as client:
            assert (await client.get("/")).text == "here"

    async with life.client():
        thread = threading.Thread(target=asyncio.run, args=(use(),))
        thread.start()
        await until(lambda: not thread.is_alive())
        assert life.seen == ["starting", "started", "starting", "started", "ended"]


async def test_an_app_that_cannot_start_is_told_with_its_cause() -> None:
    life = Life(failing="startup")
    for _ in range(2):
        with pytest.raises(TransportError) as told:
            async with life.client():
                pass
        assert str(told.value) == "the app could not start: ValueError: no such table"
        assert isinstance(told.value.__cause__, ValueError)
        assert not told.value.may_have_begun
    assert life.seen == ["starting"] * 2


async def test_an_app_that_cannot_shut_down_is_told() -> None:
    with pytest.raises(TransportError, match=r"^the app could not shut down: ValueError: no such table$"):
        async with Life(failing="shutdown").client():
            pass


async def test_the_words_of_an_app_that_fails_without_an_exception_are_told() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "Traceback:\n  ...\nno such table\n"})

    with pytest.raises(TransportError, match=r"^the app could not start: no such table$"):
        await AsgiTransport(app).__aenter__()


async def test_whoever_does_not_wait_for_a_start_leaves_nothing() -> None:
    life = Life()
    life.may_start.clear()
    before = asyncio.all_tasks()
    entering = asyncio.create_task(life.client().__aenter__())
    await until(lambda: life.seen)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert asyncio.all_tasks() == before


async def test_an_app_that_does_not_shut_down_is_cancelled() -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    clock = LoopClock()
    transport = AsgiTransport(app)
    await transport.__aenter__()
    closing = asyncio.create_task(transport.aclose())
    for _ in range(5):
        await asyncio.sleep(0)
    assert ended == []
    clock.ahead += asgi_lifespan._PATIENCE
    with pytest.raises(TransportError, match="has not shut down within 30 s"):
        await within(closing)
    assert ended == ["cancelled"]


async def returns(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})


def refuses(scope: Any, receive: Any, send: Any) -> Any:
    if scope["type"] != "http":
        raise NotImplementedError
    return returns(scope, receive, send)


async def hears_and_refuses(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        await receive()
        raise NotImplementedError
    await returns(scope, receive, send)


@pytest.mark.parametrize(("app", "warnings"), [(returns, 0), (refuses, 0), (hears_and_refuses, 1)])
async def test_an_app_without_a_lifespan_is_used_as_it_is(
    app: Any, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = asyncio.all_tasks()
    async with httpx2.AsyncClient(transport=AsgiTransport(app)) as client:
        assert (await client.get("http://localhost/")).status_code == 204
    assert asyncio.all_tasks() == before
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == warnings


async def test_an_app_that_gives_its_lifespan_up_is_told_at_the_end() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        raise ValueError("no such table")

    with pytest.raises(TransportError, match="could not shut down: ValueError: no such table"):
        async with AsgiTransport(app):
            pass


async def test_litestar_is_started_and_ended() -> None:
    seen: list[str] = []

    @get("/")
    async def page() -> str:
        return "text"

    def starting() -> None:
        seen.append("started")

    def ending() -> None:
        seen.append("ended")

    app = Litestar([page], on_startup=[starting], on_shutdown=[ending], logging_config=None)
    async with httpx2.AsyncClient(transport=AsgiTransport(app)) as client:
        assert (await client.get("http://localhost/")).text == "text"
        assert seen == ["started"]
    assert seen == ["started", "ended"]


async def test_django_knows_no_lifespan() -> None:
    async with AsgiTransport(ASGIHandler.__new__(ASGIHandler)):
        pass
