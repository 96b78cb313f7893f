"""The app in other frameworks, and its lifespan."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import django
import httpx2
import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path as django_path
from fastapi import FastAPI
from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from mcpkit import Context, Server
from tests.helpers.raw_client import call_params, initialize, request, standard_headers, text_of
from tests.helpers.serving import in_thread

PREFIX = "/tools/v1"
ACCEPT = {"Accept": "application/json, text/event-stream"}
CALL = request("tools/call", {"name": "name"})
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def make_server(name: str = "weather", **options: Any) -> Server:
    server = Server(name, **options)

    @server.tool(name="name")
    def tool(ctx: Context) -> str:
        return (ctx.state or {}).get("name", name)

    @server.route("/about")
    async def about(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(request.url_for("about")))

    return server


def post_stateless(http: httpx2.Client, url: str) -> httpx2.Response:
    headers: Any = ACCEPT | standard_headers("tools/call", "name")
    return http.post(url, json=request("tools/call", call_params("name")), headers=headers)


def call_in_a_session(http: httpx2.Client, url: str) -> str:
    opening = http.post(url, json=initialize(), headers=ACCEPT)
    assert opening.status_code == 200, opening.text
    session = ACCEPT | {"Mcp-Session-Id": opening.headers["mcp-session-id"]}
    assert http.post(url, json=INITIALIZED, headers=session).status_code == 202
    called = http.post(url, json=CALL, headers=session)
    assert called.status_code == 200, called.text
    assert http.delete(url, headers=session).status_code == 204
    return text_of(called.json())


def call_over_sse(http: httpx2.Client, url: str) -> tuple[str, str]:
    """Return the path for messages and the result."""
    with http.stream("GET", url, headers={"Accept": "text/event-stream"}) as stream:
        assert stream.status_code == 200
        events = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: "))
        endpoint = next(events)
        for message in (initialize("2024-11-05"), INITIALIZED, CALL):
            assert http.post(httpx2.URL(url).join(endpoint), json=message).status_code == 202
            if "id" in message:
                answer = json.loads(next(events))
                assert answer["id"] == message["id"]
        return endpoint.partition("?")[0], text_of(answer)


def in_starlette(app: Any, prefix: str) -> Any:
    return Starlette(routes=[Mount(prefix, app)])


def in_fastapi_with_middleware(app: Any, prefix: str) -> Any:
    parent = FastAPI(middleware=[Middleware(GZipMiddleware, minimum_size=1)])

    @parent.middleware("http")
    async def mark(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["X-Marked"] = "yes"
        return response

    parent.mount(prefix, app)
    return parent


def in_litestar(app: Any, prefix: str) -> Any:
    @asgi(prefix, is_mount=True, copy_scope=True)
    async def mounted_app(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return Litestar([mounted_app], logging_config=None)


def in_django(app: Any, prefix: str) -> Any:
    if not settings.configured:
        urls = ModuleType("mounting_urls")
        urls.urlpatterns = [django_path("page", lambda request: HttpResponse("a page of Django"))]
        sys.modules[urls.__name__] = urls
        settings.configure(ROOT_URLCONF=urls.__name__, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
        django.setup()
    pages = get_asgi_application()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        mount_point = scope.get("root_path", "") + prefix
        if scope["type"] == "http" and not scope["path"].startswith(f"{mount_point}/"):
            await pages(scope, receive, send)
        else:
            await app({**scope, "root_path": mount_point}, receive, send)

    return application


FRAMEWORKS = [in_starlette, in_fastapi_with_middleware, in_litestar, in_django]


@pytest.mark.parametrize("mount", FRAMEWORKS, ids=lambda mount: mount.__name__)
def test_mounted_app_serves_all_transports_and_refuses_other_hosts_and_origins(mount: Any) -> None:
    app = mount(make_server().asgi(allowed_origins=["https://app.example"]), PREFIX)
    with in_thread(app) as origin, httpx2.Client(timeout=30, follow_redirects=False) as http:
        url = origin + PREFIX
        for slash in ("", "/"):
            assert text_of(post_stateless(http, f"{url}/mcp{slash}").json()) == "weather"
            assert call_in_a_session(http, f"{url}/mcp{slash}") == "weather"
            assert call_over_sse(http, f"{url}/sse{slash}") == (f"{PREFIX}/messages", "weather")
        for path in ("/mcp", "/sse", "/messages", "/about"):
            rebound = http.get(url + path, headers={"Host": "evil.example"})
            assert (rebound.status_code, 'allowed_hosts=["evil.example"]' in rebound.text) == (421, True)
            foreign = http.post(url + path, headers={"Origin": "https://evil.example"})
            assert foreign.status_code == 403
            assert 'allowed_origins=["https://evil.example"]' in foreign.text
            assert "access-control-allow-origin" not in foreign.headers


def test_lifespan_of_mounted_app_starts_with_first_request() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[dict[str, str]]:
        events.append("entered")
        task = asyncio.current_task()
        await asyncio.sleep(0)
        try:
            yield {"name": "state"}
        finally:
            await asyncio.sleep(0)
            events.append("left" if asyncio.current_task() is task else "left by another task")

    app = in_starlette(make_server(lifespan=lifespan).asgi(), "/x")
    with in_thread(app) as url, httpx2.Client() as http:
        http.get(f"{url}/elsewhere")
        assert events == []
        for _ in range(3):
            assert text_of(post_stateless(http, f"{url}/x/mcp").json()) == "state"
        assert events == ["entered"]
    assert events == ["entered", "left"]


def test_lifespan_failure_is_not_disclosed() -> None:
    @asynccontextmanager
    async def failing(server: Server) -> AsyncIterator[None]:
        raise OSError("the database is away")
        yield

    app = in_starlette(make_server(lifespan=failing).asgi(), "/x")
    with in_thread(app) as url, httpx2.Client() as http:
        answer = post_stateless(http, f"{url}/x/mcp")
    assert answer.status_code in {200, 503}
    assert "weather" not in answer.text
    assert "database" not in answer.text
