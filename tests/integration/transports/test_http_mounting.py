"""The app in other frameworks, and its lifespan."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
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
from fastapi import FastAPI, Request
from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request as StarletteRequest
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from mcpkit import Context, HttpOptions, Server
from tests.helpers.raw_client import call_params, initialize, request, text_of
from tests.helpers.serving import in_thread

ACCEPT = {"Accept": "application/json, text/event-stream"}
STATELESS = ACCEPT | {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "name"}
CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "name"}}
STATELESS_CALL = request("tools/call", call_params("name"))


def make_server(name: str = "weather") -> Server:
    made = Server(name)

    @made.tool(name="name")
    def tool() -> str:
        """The name of the server."""
        return name

    @made.route("/about")
    async def about(request: StarletteRequest) -> PlainTextResponse:
        return PlainTextResponse(str(request.url_for("about")))

    return made


def call_stateless(http: httpx2.Client, url: str) -> str:
    answer = http.post(url, json=STATELESS_CALL, headers=STATELESS)
    assert answer.status_code == 200, answer.text
    return text_of(answer.json())


def call_in_a_session(http: httpx2.Client, url: str) -> str:
    opening = http.post(url, json=initialize(), headers=ACCEPT)
    assert opening.status_code == 200, opening.text
    session = ACCEPT | {
        "Mcp-Session-Id": opening.headers["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert http.post(url, json=initialized, headers=session).status_code == 202
    called = http.post(url, json=CALL, headers=session)
    assert called.status_code == 200, called.text
    assert http.delete(url, headers=session).status_code in {200, 204}
    return text_of(called.json())


def call_over_sse(http: httpx2.Client, url: str, behind: str = "") -> tuple[str, str]:
    with http.stream("GET", url, headers={"Accept": "text/event-stream"}) as stream:
        assert stream.status_code == 200
        events = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: "))
        endpoint = next(events)
        messages = httpx2.URL(url).join(endpoint.removeprefix(behind))
        for message in (
            initialize("2024-11-05"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            CALL,
        ):
            assert http.post(messages, json=message).status_code == 202
            if "id" in message:
                answer = json.loads(next(events))
                assert answer["id"] == message["id"]
        return endpoint.partition("?")[0], text_of(answer)


def in_starlette(app: Any, prefix: str) -> Any:
    return Starlette(routes=[Mount(prefix, app)])


def in_fastapi_with_middleware(app: Any, prefix: str) -> Any:
    parent = FastAPI(middleware=[Middleware(GZipMiddleware, minimum_size=1)])

    @parent.middleware("http")
    async def mark(request: Request, call_next: Callable[[Request], Any]) -> Any:
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


def pages_of_django() -> Any:
    if not settings.configured:
        urls = ModuleType("mounting_urls")
        urls.urlpatterns = [django_path("page", lambda request: HttpResponse("a page of Django"))]
        sys.modules[urls.__name__] = urls
        settings.configure(ROOT_URLCONF=urls.__name__, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
        django.setup()
    return get_asgi_application()


def in_django(app: Any, prefix: str) -> Any:
    pages = pages_of_django()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        mount_point = scope.get("root_path", "") + prefix
        if scope["type"] == "http" and not scope["path"].startswith(f"{mount_point}/"):
            await pages(scope, receive, send)
        else:
            await app({**scope, "root_path": mount_point}, receive, send)

    return application


def in_another(app: Any, prefix: str) -> Any:
    outer = make_server("outer").asgi()
    outer.mount(prefix, app)
    return outer


FRAMEWORKS = [in_starlette, in_fastapi_with_middleware, in_litestar, in_django, in_another]


PREFIX = "/tools/v1"


@pytest.fixture(params=FRAMEWORKS, ids=lambda framework: framework.__name__)
def mounted_app(request: pytest.FixtureRequest) -> Any:
    return request.param(
        make_server().asgi(
            http=HttpOptions(readiness_path="/health"), allowed_origins=["https://app.example"]
        ),
        PREFIX,
    )


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=30, follow_redirects=False) as client:
        yield client


def test_mounted_app_serves_all_transports_and_refuses_other_hosts_and_origins(mounted_app, http):
    with in_thread(mounted_app) as url:
        for path in ("/mcp", "/mcp/"):
            assert call_stateless(http, url + PREFIX + path) == "weather"
            assert call_in_a_session(http, url + PREFIX + path) == "weather"
        for path in ("/sse", "/sse/"):
            assert call_over_sse(http, url + PREFIX + path) == (f"{PREFIX}/messages", "weather")
        for path in ("/mcp", "/sse", "/messages", "/about"):
            rebound = http.get(url + PREFIX + path, headers={"Host": "evil.example"})
            assert (rebound.status_code, 'allowed_hosts=["evil.example"]' in rebound.text) == (421, True)
            foreign = http.post(url + PREFIX + path, headers={"Origin": "https://evil.example"})
            assert foreign.status_code == 403
            assert 'allowed_origins=["https://evil.example"]' in foreign.text
            assert "access-control-allow-origin" not in foreign.headers


HEADERS = STATELESS | {"Mcp-Name": "word"}
WORD_CALL = request("tools/call", call_params("word"))


class RecordingServer:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.server = Server("life", lifespan=self.lifespan)

        @self.server.tool
        async def word(ctx: Context) -> str:
            return ctx.state["word"]

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[dict[str, str]]:
        self.seen.append("entered")
        task = asyncio.current_task()
        await asyncio.sleep(0)
        try:
            yield {"word": "here"}
        finally:
            await asyncio.sleep(0)
            self.seen.append("left" if asyncio.current_task() is task else "left by another task")


def call_word(http: httpx2.Client, url: str) -> str:
    answer = http.post(url, json=WORD_CALL, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]["content"][0]["text"]


def mount_below(app: Any) -> Any:
    return Starlette(routes=[Mount("/x", app)])


@pytest.fixture
def recording() -> RecordingServer:
    return RecordingServer()


def test_lifespan_of_mounted_app_starts_with_first_request(recording):
    with in_thread(mount_below(recording.server.asgi())) as url, httpx2.Client() as http:
        http.get(f"{url}/elsewhere")
        assert recording.seen == []
        assert [call_word(http, f"{url}/x/mcp") for _ in range(3)] == ["here"] * 3
        assert recording.seen == ["entered"]
    assert recording.seen == ["entered", "left"]


@asynccontextmanager
async def failing_to_enter(server: Server) -> AsyncIterator[None]:
    raise OSError("the database is away")
    yield


def test_lifespan_failure_is_not_disclosed():
    server = Server("life", lifespan=failing_to_enter)

    @server.tool
    def word() -> str:
        return "here"

    with in_thread(mount_below(server.asgi())) as url, httpx2.Client() as http:
        answer = http.post(f"{url}/x/mcp", json=WORD_CALL, headers=HEADERS)
    assert answer.status_code in {200, 503}
    assert "here" not in answer.text
    assert "database" not in answer.text
