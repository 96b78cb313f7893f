"""The app below a prefix of any framework, with nothing wired."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
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
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from mcpkit import Server
from tests.helpers.serving import in_thread

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
STATELESS = ACCEPT | {
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "name",
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "name", "arguments": {}}}
STATELESS_CALL = CALL | {"params": CALL["params"] | {"_meta": META}}
PAGE = "http://localhost:6274"


def server(name: str = "weather") -> Server:
    made = Server(name)

    @made.tool(name="name")
    def tool() -> str:
        """The name of the server."""
        return name

    @made.route("/about")
    async def about(request: StarletteRequest) -> PlainTextResponse:
        return PlainTextResponse(str(request.url_for("about")))

    return made


def initialize(revision: str = "2025-11-25") -> dict[str, Any]:
    client = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}


def text_of(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


def call_stateless(http: httpx2.Client, url: str) -> str:
    answer = http.post(url, json=STATELESS_CALL, headers=STATELESS)
    assert answer.status_code == 200, answer.text
    return text_of(answer.json())


def call_in_a_session(http: httpx2.Client, url: str) -> str:
    opened = http.post(url, json=initialize(), headers=ACCEPT)
    assert opened.status_code == 200, opened.text
    session = ACCEPT | {
        "Mcp-Session-Id": opened.headers["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert http.post(url, json=initialized, headers=session).status_code == 202
    called = http.post(url, json=CALL, headers=session)
    assert called.status_code == 200, called.text
    assert http.delete(url, headers=session).status_code in {200, 204}
    return text_of(called.json())


def events(stream: httpx2.Response) -> Iterator[tuple[str, str]]:
    event, data = "message", []
    for line in stream.iter_lines():
        field, _, value = line.partition(":")
        if field == "event":
            event = value.strip()
        elif field == "data":
            data.append(value.strip())
        elif not line and data:
            yield event, "\n".join(data)
            event, data = "message", []


def call_over_sse(http: httpx2.Client, url: str, behind: str = "") -> tuple[str, str]:
    """Return the path of the endpoint event, and what the tool says; `behind` is cut off by the proxy."""
    with http.stream("GET", url, headers={"Accept": "text/event-stream"}) as stream:
        assert stream.status_code == 200
        heard = events(stream)
        kind, endpoint = next(heard)
        assert kind == "endpoint"
        messages = httpx2.URL(url).join(endpoint.removeprefix(behind))
        for message in (
            initialize("2024-11-05"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            CALL,
        ):
            assert http.post(messages, json=message).status_code == 202
            if "id" in message:
                answer = json.loads(next(heard)[1])
                assert answer["id"] == message["id"]
        return endpoint.partition("?")[0], text_of(answer)


# Each puts an app below a prefix of its framework, in the way that its documentation shows.


def in_starlette(app: Any, prefix: str) -> Any:
    return Starlette(routes=[Mount(prefix, app)])


def in_nested_starlette(app: Any, prefix: str) -> Any:
    first, _, rest = prefix.removeprefix("/").partition("/")
    return Starlette(routes=[Mount(f"/{first}", Starlette(routes=[Mount(f"/{rest}", app)]))])


def in_fastapi(app: Any, prefix: str) -> Any:
    parent = FastAPI()
    parent.mount(prefix, app)
    return parent


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
    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return Litestar([mounted], logging_config=None)


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
    outer = server("outer").asgi()
    outer.mount(prefix, app)
    return outer


FRAMEWORKS = [
    in_starlette,
    in_nested_starlette,
    in_fastapi,
    in_fastapi_with_middleware,
    in_litestar,
    in_django,
    in_another,
]
PREFIX = "/tools/v1"


@pytest.fixture(params=FRAMEWORKS, ids=lambda framework: framework.__name__)
def mounted(request: pytest.FixtureRequest) -> Any:
    return request.param(server().asgi(health="/health", allowed_origins=["https://app.example"]), PREFIX)


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=30, follow_redirects=False) as client:
        yield client


def test_every_client_is_served_under_uvicorn(mounted, http):
    with in_thread(mounted) as url:
        for path in ("/mcp", "/mcp/"):
            assert call_stateless(http, url + PREFIX + path) == "weather"
            assert call_in_a_session(http, url + PREFIX + path) == "weather"
        for path in ("/sse", "/sse/"):
            assert call_over_sse(http, url + PREFIX + path) == (f"{PREFIX}/messages", "weather")


def test_the_test_client_of_starlette_is_served(mounted):
    http = TestClient(mounted, "http://localhost", follow_redirects=False)
    assert call_stateless(http, f"{PREFIX}/mcp") == "weather"
    assert call_in_a_session(http, f"{PREFIX}/mcp/") == "weather"


def test_own_routes_and_readiness_are_served(mounted, http):
    with in_thread(mounted) as url:
        for path in ("/about", "/about/"):
            answer = http.get(url + PREFIX + path)
            assert (answer.status_code, answer.text) == (200, f"{url}{PREFIX}/about")
        call_stateless(http, f"{url}{PREFIX}/mcp")
        for path in ("/health", "/health/"):
            answer = http.get(url + PREFIX + path, headers={"Host": "10.0.0.5:8000"})
            assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
        assert http.get(f"{url}{PREFIX}/nothing").status_code == 404


def test_a_page_of_an_allowed_origin_is_served(mounted, http):
    asked = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-method,mcp-param-region",
        "Access-Control-Request-Private-Network": "true",
    }
    with in_thread(mounted) as url:
        preflight = http.options(f"{url}{PREFIX}/mcp", headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        assert preflight.headers["access-control-allow-headers"] == asked["Access-Control-Request-Headers"]
        assert preflight.headers["access-control-allow-private-network"] == "true"
        answer = http.post(
            f"{url}{PREFIX}/mcp", json=STATELESS_CALL, headers=STATELESS | {"Origin": "https://app.example"}
        )
        assert (answer.status_code, text_of(answer.json())) == (200, "weather")
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "mcp-session-id" in answer.headers["access-control-expose-headers"].lower()
        assert "Origin" in answer.headers["vary"]


def test_strangers_are_refused_with_the_setting(mounted, http):
    with in_thread(mounted) as url:
        for path in ("/mcp", "/sse", "/messages", "/about"):
            rebound = http.get(
                url + PREFIX + path, headers={"Host": "evil.example", "Origin": "http://evil.example"}
            )
            assert rebound.status_code == 421
            assert 'allowed_hosts=["evil.example"]' in rebound.text
            foreign = http.post(url + PREFIX + path, headers={"Origin": "https://evil.example"})
            assert foreign.status_code == 403
            assert 'allowed_origins=["https://evil.example"]' in foreign.text
            assert "access-control-allow-origin" not in foreign.headers


def test_the_rest_of_the_framework_is_as_it_was(http):
    with in_thread(in_django(server().asgi(), PREFIX)) as url:
        assert http.get(f"{url}/page").text == "a page of Django"
    with in_thread(in_another(server().asgi(), PREFIX)) as url:
        assert call_stateless(http, f"{url}/mcp") == "outer"
        assert call_over_sse(http, f"{url}/sse") == ("/messages", "outer")


def test_a_whole_site_may_stand_beside_the_endpoint(http):
    app = server().asgi()
    app.mount("/", pages_of_django())
    with in_thread(app) as url:
        assert http.get(f"{url}/page").text == "a page of Django"
        assert call_stateless(http, f"{url}/mcp") == "weather"
        assert call_over_sse(http, f"{url}/sse") == ("/messages", "weather")


def test_a_route_of_starlette_serves_the_exact_path(http):
    app = Starlette(routes=[Route("/tools", server().asgi(path="/tools"))])
    with in_thread(app) as url:
        assert call_stateless(http, f"{url}/tools") == "weather"
        assert call_in_a_session(http, f"{url}/tools") == "weather"


@pytest.mark.parametrize("path", ["/", "/mcp/", "/deep/er"])
def test_the_endpoint_is_where_the_author_wants_it(path, http):
    with in_thread(server().asgi(path=path, sse=False)) as url:
        for spelled in (path, path.rstrip("/") + "/"):
            assert call_stateless(http, url + spelled) == "weather"
        assert http.get(f"{url}/sse").status_code == 404


def test_several_servers_share_one_app(http):
    app = Starlette(routes=[Mount(f"/{name}", server(name).asgi()) for name in ("one", "two")])
    with in_thread(app) as url:
        for name in ("one", "two", "one"):
            assert call_stateless(http, f"{url}/{name}/mcp") == name
            assert call_in_a_session(http, f"{url}/{name}/mcp") == name
            assert call_over_sse(http, f"{url}/{name}/sse") == (f"/{name}/messages", name)


def test_a_session_of_one_server_is_none_of_another(http):
    app = Starlette(routes=[Mount(f"/{name}", server(name).asgi()) for name in ("one", "two")])
    with in_thread(app) as url:
        opened = http.post(f"{url}/one/mcp", json=initialize(), headers=ACCEPT)
        session = ACCEPT | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        assert http.post(f"{url}/two/mcp", json=CALL, headers=session).status_code == 404


def test_one_app_may_be_mounted_twice(http):
    app = server().asgi()
    parent = Starlette(routes=[Mount("/one", app), Mount("/two", app)])
    with in_thread(parent) as url:
        for prefix in ("/one", "/two"):
            assert call_stateless(http, f"{url}{prefix}/mcp") == "weather"
            assert call_over_sse(http, f"{url}{prefix}/sse") == (f"{prefix}/messages", "weather")


@pytest.mark.parametrize("framework", [None, in_starlette, in_litestar, in_django])
def test_the_prefix_of_a_proxy_is_in_the_endpoint_event(framework, http):
    app, prefix = server().asgi(), ""
    if framework is not None:
        app, prefix = framework(app, PREFIX), PREFIX
    with in_thread(app, root_path="/proxy") as url:
        assert call_stateless(http, f"{url}{prefix}/mcp") == "weather"
        endpoint, said = call_over_sse(http, f"{url}{prefix}/sse", behind="/proxy")
        assert (endpoint, said) == (f"/proxy{prefix}/messages", "weather")
