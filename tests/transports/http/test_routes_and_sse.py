"""Routes beside the endpoint, mount points, CORS and readiness paths."""

import subprocess
import sys
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from mcpkit import HttpOptions, Principal, RegistrationError, Server
from tests.helpers.raw_client import Serve
from tests.helpers.servers.protected import old_of

PAGE = "http://localhost:6274"
EVIL = "https://evil.example"
PREFLIGHT = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,last-event-id,mcp-method,mcp-name,"
    "mcp-param-region,mcp-protocol-version,mcp-session-id",
}
WELL_KNOWN = "/.well-known/oauth-protected-resource"


async def hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse("Hello")


async def broken(request: Request) -> PlainTextResponse:
    raise RuntimeError("secret detail")


async def metadata(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.path_params.get('name', 'all')} at {request.url_for('place')}")


def make_app(**options: Any) -> Any:
    server = Server("s")
    server.route("/hello")(hello)
    server.route("/broken")(broken)
    server.route(WELL_KNOWN, name="place", outside_mount=True)(metadata)
    server.route(WELL_KNOWN + "/{name:path}", outside_mount=True)(metadata)
    return server.asgi(**options)


def client(app: Any, **options: Any) -> TestClient:
    return TestClient(app, "http://localhost:8000", follow_redirects=False, **options)


def cors_headers(answer: Any) -> list[str]:
    return [name for name in answer.headers if name.startswith("access-control-")]


def test_site_root_names_endpoint():
    app = Server("travel").asgi()
    answer = client(app).post("/", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert (answer.status_code, answer.text) == (404, "Not Found. The MCP endpoint is at /mcp")
    below = client(Starlette(routes=[Mount("/travel", app)])).get("/travel/")
    assert below.text == "Not Found. The MCP endpoint is at /travel/mcp"
    hidden = client(Server("travel").asgi(path="/hard-to-guess")).get("/")
    assert (hidden.status_code, hidden.text) == (404, "Not Found")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_route_at_endpoint_path_is_refused(path):
    server = Server("s")
    server.route(path, methods=["POST"])(hello)
    with pytest.raises(RegistrationError, match=rf"route\('{path}'\): path='/mcp' of server.asgi"):
        server.asgi()


def test_route_added_later_at_reserved_path_stops_start():
    server = Server("s")
    app = server.asgi()
    server.route("/messages")(hello)
    with pytest.raises(RegistrationError, match=r"HttpOptions\(sse=True\) of server.asgi"), client(app):
        pass


def test_route_exception_is_not_disclosed():
    with pytest.raises(RuntimeError, match="secret detail"):
        client(make_app()).get("/broken")
    answer = client(make_app(), raise_server_exceptions=False).get("/broken")
    assert (answer.status_code, "secret" in answer.text) == (500, False)


def test_routes_and_mounted_apps_have_their_own_guard():
    outer = make_app(allowed_hosts=["outer.example"], allowed_origins=["https://app.example"])
    outer.mount("/inner", make_app(allowed_hosts=["inner.example"]))
    http = client(outer)
    for path, host, status in (
        ("/inner/hello", "inner.example", 200),
        ("/inner/hello", "outer.example", 421),
        ("/hello", "outer.example", 200),
        ("/hello", "inner.example", 421),
    ):
        answer = http.get(path, headers={"Host": host})
        assert answer.status_code == status
        assert (f'server.asgi(allowed_hosts=["{host}"])' in answer.text) == (status == 421)
    refused = http.get("/hello", headers={"Origin": EVIL})
    assert (refused.status_code, refused.headers["content-type"]) == (403, "text/plain; charset=utf-8")
    assert f'server.asgi(allowed_origins=["{EVIL}"])' in refused.text
    assert http.get("/hello", headers={"Origin": "https://app.example"}).status_code == 200


def test_cors_preflight_is_answered():
    http = client(make_app())
    answer = http.options("/hello", headers=PREFLIGHT)
    assert answer.status_code == 200
    headers = answer.headers
    assert headers["access-control-allow-origin"] == PAGE
    assert {"GET", "POST", "DELETE", "OPTIONS"} <= set(headers["access-control-allow-methods"].split(", "))
    assert headers["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert int(headers["access-control-max-age"]) > 0
    assert "Origin" in headers["vary"].split(", ")
    assert "access-control-allow-credentials" not in headers
    assert "access-control-allow-private-network" not in headers
    refused = http.options("/hello", headers=PREFLIGHT | {"Origin": EVIL})
    assert (refused.status_code, cors_headers(refused)) == (403, [])
    assert "allowed_origins" in refused.text


def test_cors_wildcard_does_not_echo_origin():
    http = client(make_app(allowed_origins=["*"]))
    for answer in (
        http.get("/hello", headers={"Origin": EVIL, "Cookie": "a=b"}),
        http.options("/hello", headers=PREFLIGHT | {"Origin": EVIL}),
    ):
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


def test_cors_disabled_sends_no_headers():
    http = client(make_app(http=HttpOptions(cors=False)))
    answer = http.get("/hello", headers={"Origin": PAGE})
    assert (answer.status_code, cors_headers(answer)) == (200, [])
    assert http.options("/hello", headers=PREFLIGHT).status_code == 405


def around(app: Any, at: str) -> Any:
    home = Route("/", lambda request: PlainTextResponse("home"))
    return app.around(Starlette(routes=[Mount(at, app), home]))


@pytest.mark.parametrize("at", ["/api", "/"])
def test_outside_route_is_at_site_root_only(at: str) -> None:
    with client(around(make_app(), at)) as http:
        for path, name in ((WELL_KNOWN, "all"), (f"{WELL_KNOWN}/api/mcp", "api/mcp")):
            assert http.get(path).text == f"{name} at http://localhost:8000{WELL_KNOWN}"
        assert http.get(f"{at.rstrip('/')}/hello").text == "Hello"
        if at != "/":
            assert http.get(at + WELL_KNOWN).status_code == 404
            assert http.get("/hello").status_code == 404
            assert http.get("/").text == "home"


def test_outside_route_is_guarded_without_principal() -> None:
    def refuse(scope: Any) -> Principal:
        raise AssertionError("no principal is needed")

    http = client(around(make_app(http=HttpOptions(principal=refuse)), "/api"))
    assert http.get(WELL_KNOWN, headers={"Host": "evil.example"}).status_code == 421
    assert http.get(WELL_KNOWN, headers={"Origin": EVIL}).status_code == 403
    preflight = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    for answer in (
        http.get(WELL_KNOWN, headers={"Origin": PAGE}),
        http.options(WELL_KNOWN, headers=preflight),
    ):
        assert answer.headers["access-control-allow-origin"] == PAGE


def test_websocket_is_closed():
    with pytest.raises(WebSocketDisconnect), client(make_app()).websocket_connect("/hello"):
        pass


# The event stream of 2024-11-05, which sse-starlette serves


def test_sse_starlette_is_imported_when_a_stream_opens_and_leaves_handle_exit_of_uvicorn() -> None:
    program = """
import asyncio, sys
import uvicorn
from mcpkit import HttpOptions, Server
handle_exit = uvicorn.Server.handle_exit
app = Server("old").asgi(http=HttpOptions(sse=True))

async def main():
    started = asyncio.Event()
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [(b"host", b"localhost")]}
    scope["query_string"] = b""

    async def receive():
        if scope["method"] == "POST":
            return {"type": "http.request", "body": b"[", "more_body": False}
        await started.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        started.set()

    await app(scope, receive, send)
    assert "sse_starlette" not in sys.modules
    started.clear()
    scope.update(method="GET", path="/sse")
    await asyncio.wait_for(app(scope, receive, send), 20)
    assert "sse_starlette" in sys.modules
    assert uvicorn.Server.handle_exit is handle_exit

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_idle_stream_gets_pings(serve: Serve) -> None:
    async with serve(Server("old"), http=HttpOptions(sse=True, sse_ping_interval=0.05)) as client:
        sse = await old_of(client, {})
        for _ in range(3):
            await sse.stream.comment()
        assert "result" in await sse.ask("ping", {}, {})
