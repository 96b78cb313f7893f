"""ASGI apps as a client's server: the server's own and those of others, alone and mounted, in every revision."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from mcpkit.client.client import Client
from mcpkit.client.link.errors import AuthorizationError, StatusError, TransportError
from mcpkit.client.transports.http.sse import SseTransport
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.official_server import official_server
from tests.helpers.toured import REVISIONS, Toured, tour

pytestmark = pytest.mark.anyio

ORIGIN = "http://127.0.0.1:8000"
Site = Callable[[Any], Any]


def in_starlette(app: Any) -> Any:
    return Starlette(routes=[Mount("/api", app)])


def in_fastapi(app: Any) -> Any:
    api = FastAPI()
    api.mount("/api", app)
    return api


def in_litestar(app: Any) -> Any:
    return Litestar([asgi("/api", is_mount=True, copy_scope=True)(app)], logging_config=None)


async def passing(request: Request, call_next: Any) -> Response:
    response: Response = await call_next(request)
    return response


def behind_middleware(app: Any) -> Any:
    stack = [Middleware(BaseHTTPMiddleware, dispatch=passing), Middleware(GZipMiddleware, minimum_size=10)]
    return Starlette(routes=[Mount("/api", app)], middleware=stack)


SITES = {
    "alone": (lambda app: app, ""),
    "starlette": (in_starlette, "/api"),
    "middleware": (behind_middleware, "/api"),
    "fastapi": (in_fastapi, "/api"),
    "litestar": (in_litestar, "/api"),
}
EVERY_SITE = pytest.mark.parametrize(("site", "prefix"), SITES.values(), ids=SITES)


@EVERY_SITE
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_is_used_as_an_app(site: Site, prefix: str, revision: str) -> None:
    toured = Toured()
    before = asyncio.all_tasks()
    transport = HttpTransport(f"{ORIGIN}{prefix}/mcp", app=site(toured.server.asgi(grace=0)))
    await tour(transport, revision, toured)
    if not prefix:  # the lifespan of what is mounted is left with the event loop
        assert asyncio.all_tasks() == before


@EVERY_SITE
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_is_used_as_an_app_by_the_first_transport(
    site: Site, prefix: str, revision: str
) -> None:
    toured = Toured()
    before = asyncio.all_tasks()
    transport = SseTransport(f"{ORIGIN}{prefix}/sse", app=site(toured.server.asgi(grace=0)))
    await tour(transport, revision, toured)
    if not prefix:
        assert asyncio.all_tasks() == before


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("kind", ["streams", "json", "sse"])
async def test_the_official_server_is_used_as_an_app(kind: str, revision: str) -> None:
    server = official_server()
    transport = (
        SseTransport(f"{ORIGIN}/sse", app=server.sse_app())
        if kind == "sse"
        else HttpTransport(f"{ORIGIN}/mcp", app=server.streamable_http_app(json_response=kind == "json"))
    )
    async with Client(transport, revision=revision) as client:
        assert client.revision == revision
        assert [tool["name"] for tool in await client.list_tools()] == ["add", "steps"]
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
        told: list[Any] = []
        result = await client.call("steps", progress=lambda *progress: told.append(progress))
        assert result.text == "done"
        if kind != "json":
            assert told == [(1, 3, None), (2, 3, None), (3, 3, None)]


async def test_clients_of_one_app_are_told_apart() -> None:
    toured = Toured()
    app = toured.server.asgi()
    transports = [
        HttpTransport(f"{ORIGIN}/mcp", app=app, headers={"X-Name": name}) for name in ("first", "second")
    ]
    async with Client(transports[0]) as first, Client(transports[1]) as second:
        for client, name in ((first, "first"), (second, "second")):
            assert (await client.call("headers", {"name": "x-name"})).text == name


async def test_middleware_of_an_app_is_met() -> None:
    async def check(request: Request, call_next: Any) -> Response:
        if request.headers.get("authorization") != "Bearer secret":
            return Response(status_code=401, headers={"WWW-Authenticate": 'Bearer scope="tools"'})
        response: Response = await call_next(request)
        return response

    app = Starlette(
        routes=[Mount("/", Toured().server.asgi())],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=check)],
    )
    with pytest.raises(AuthorizationError, match="tools"):
        async with Client(HttpTransport(f"{ORIGIN}/mcp", app=app)):
            pass
    await tour(HttpTransport(f"{ORIGIN}/mcp", app=app, token="secret"), "2025-11-25")


async def test_an_app_that_fails_is_told() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raise ValueError("no such table")

    with pytest.raises(TransportError, match="the app has raised ValueError: no such table"):
        async with Client(HttpTransport(f"{ORIGIN}/mcp", app=app)):
            pass


@pytest.mark.parametrize(
    ("path", "transport"), [("/mcp", HttpTransport), ("/sse", SseTransport), ("/events", SseTransport)]
)
async def test_an_app_is_a_target_whatever_it_speaks(path: str, transport: type) -> None:
    server = official_server()
    app = server.streamable_http_app() if path == "/mcp" else server.sse_app(sse_path=path)
    async with Client(app, path=path) as client:
        assert isinstance(client._link.transport, transport)
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"


async def test_an_app_that_has_nothing_at_the_path_is_told() -> None:
    with pytest.raises(StatusError, match="HTTP 404") as told:
        async with Client(in_fastapi(Toured().server.asgi())):
            pass
    assert told.value.status == 404


class Recorded:
    """An app around another one, that forgets sessions when it is told to.

    Attributes:
        seen: What its lifespan has done.
        is_forgetful: Whether the next call finds its session gone.
    """

    def __init__(self, app: Any) -> None:
        self.seen: list[str] = []
        self.is_forgetful = False
        self._app = app
        self.app = Starlette(routes=[Mount("/", self.serve)], lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.seen.append("started")
        yield
        self.seen.append("ended")

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        if self.is_forgetful and b"tools/call" in message["body"]:
            self.is_forgetful = False
            await Response(status_code=404)(scope, receive, send)
            return
        messages = [message]

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        await self._app(scope, again, send)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_an_app_goes_on_while_a_session_that_is_gone_is_opened_again(path: str) -> None:
    recorded = Recorded(Toured().server.asgi(grace=0))
    async with Client(recorded.app, path=path, revision="2025-11-25") as client:
        recorded.is_forgetful = True
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
        assert not recorded.is_forgetful
        assert recorded.seen == ["started"]
    assert recorded.seen == ["started", "ended"]


async def test_an_app_goes_on_while_the_way_to_it_is_found() -> None:
    recorded = Recorded(official_server().sse_app(sse_path="/events"))
    async with Client(recorded.app, path="/events") as client:
        assert isinstance(client._link.transport, SseTransport)
        assert recorded.seen == ["started"]
    assert recorded.seen == ["started", "ended"]


async def test_an_app_that_starts_for_too_long_is_given_up() -> None:
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with Client(app, connect_timeout=0.01):
            pass
    assert ended.is_set()
    assert asyncio.all_tasks() == before
