"""ASGI apps as servers of a client: requests, responses in parts, their ends, and the lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.http.asgi import AsgiTransport
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


App = Callable[..., Awaitable[None]]
PIECE = b"x" * 1024


def http(function: App) -> App:
    """Make an app of a function that serves requests; it knows no lifespan."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await function(scope, receive, send)

    return app


@asynccontextmanager
async def client_of(app: App) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client of an app, that leaves no task behind."""
    before = asyncio.all_tasks()
    async with httpx2.AsyncClient(transport=AsgiTransport(app), base_url="http://localhost:8000") as client:
        yield client
    assert asyncio.all_tasks() - before == set()


START = {"type": "http.response.start", "status": 200, "headers": []}


def body_part(part: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": part, "more_body": more}


async def test_asgi_scope_and_request() -> None:
    seen: list[dict[str, Any]] = []

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend((scope, await receive()))
        headers = [(b"x-answer", b"1"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
        await send({**START, "status": 201, "headers": headers})
        await send(body_part(b"made"))

    async with client_of(app) as client:
        response = await client.post("/a%20b/c?d=e&f", content=b"sent", headers={"X-Own": "1"})
    assert (response.status_code, response.content, response.headers["x-answer"]) == (201, b"made", "1")
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    scope, message = seen
    headers = dict(scope["headers"])
    assert (headers[b"host"], headers[b"x-own"]) == (b"localhost:8000", b"1")
    assert message == {"type": "http.request", "body": b"sent", "more_body": False}
    assert scope["asgi"] == {"version": "3.0", "spec_version": "2.3"}
    target = {"method": "POST", "path": "/a b/c", "raw_path": b"/a%20b/c", "query_string": b"d=e&f"}
    place = {"scheme": "http", "root_path": "", "server": ("localhost", 8000), "state": {}}
    assert scope.items() >= {**target, **place, "http_version": "1.1"}.items()


async def test_asgi_send_waits_for_reader() -> None:
    sent = 0

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send(START)
        while sent < 1000:
            await send(body_part(PIECE, more=True))
            sent += 1
        await send(body_part())

    async with client_of(app) as client, client.stream("GET", "/") as response:
        parts = response.aiter_raw()
        await anext(parts)
        for _ in range(10):
            await asyncio.sleep(0)
        assert sent <= 66
        read = len(PIECE)
        async for part in parts:
            read += len(part)
            assert sent * len(PIECE) - read <= 66 * len(PIECE)
        assert (sent, read) == (1000, 1000 * len(PIECE))


async def test_asgi_response_closed_disconnects_app() -> None:
    ended: list[str] = []

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body_part(b"first", more=True))
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.append("disconnected")
        with pytest.raises(ConnectionResetError):
            await send(body_part(b"second", more=True))
        ended.append("refused")

    async with client_of(app) as client:
        async with client.stream("GET", "/") as response:
            assert await anext(response.aiter_raw()) == b"first"
        await until(lambda: ended == ["disconnected", "refused"])


class AppWithLifespan:
    """An app that keeps the steps of its lifespan, and the tasks that entered and left it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.steps: list[str] = []
        self.tasks: list[object] = []
        app = Starlette(routes=[Route("/", self.page)], lifespan=self.lifespan)
        self.client = httpx2.AsyncClient(transport=AsgiTransport(app), base_url="http://localhost")

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[dict[str, str]]:
        self.steps.append("starting")
        self.tasks.append(asyncio.current_task())
        if self.fails:
            raise ValueError("no such table")
        async with anyio.create_task_group():  # the task that entered it has to leave it
            yield {"word": "here"}
        self.tasks.append(asyncio.current_task())
        self.steps.append("ended")

    async def page(self, request: Request) -> PlainTextResponse:
        word = request.state.word
        request.state.word = "changed"
        return PlainTextResponse(word)


async def test_lifespan_runs_with_client() -> None:
    app = AppWithLifespan()
    async with app.client as client:
        assert app.steps == ["starting"]
        assert [(await client.get("/")).text for _ in range(2)] == ["here", "here"]
    assert app.steps == ["starting", "ended"]
    assert app.tasks[0] is app.tasks[1]


async def test_lifespan_startup_failure_is_error() -> None:
    app = AppWithLifespan(fails=True)
    with pytest.raises(TransportError, match="the app could not start: ValueError: no such table") as raised:
        await app.client.__aenter__()
    assert isinstance(raised.value.__cause__, ValueError)
    assert not raised.value.may_have_begun
