"""Routes beside the endpoint, mount points, CORS and readiness paths."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from mcpkit import HttpOptions, Principal, RegistrationError, Server
from mcpkit.engine.routes import CustomRoute
from mcpkit.transports.http.app import HttpApp
from mcpkit.transports.http.intake.guard import Guard
from mcpkit.transports.http.options import Settings
from mcpkit.transports.http.routes import Routes

PAGE = "http://localhost:6274"


PREFLIGHT = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,last-event-id,mcp-method,mcp-name,"
    "mcp-param-region,mcp-protocol-version,mcp-session-id",
}


async def hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"Hello, {request.path_params.get('name', 'world')}")


def blocking(request: Request) -> PlainTextResponse:
    return PlainTextResponse("from a thread")


async def where(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(request.url_for("where")))


async def teapot(request: Request) -> PlainTextResponse:
    raise HTTPException(418, "short and stout")


async def broken(request: Request) -> PlainTextResponse:
    raise RuntimeError("secret detail")


async def change(request: Request) -> JSONResponse:
    return JSONResponse({"method": request.method, "body": (await request.body()).decode()})


OWN = [
    CustomRoute("/hello", hello, ["GET"], None), CustomRoute("/hello/{name}", hello, None, "greet"),
    CustomRoute("/blocking", blocking, ["GET"], None), CustomRoute("/where", where, ["GET"], None),
    CustomRoute("/teapot", teapot, ["GET"], None), CustomRoute("/broken", broken, ["GET"], None),
    CustomRoute("/change", change, ["PUT", "POST"], None),
]  # fmt: skip


async def no_hindrance(is_shared_needed: bool) -> str | None:
    return None


def make_routes(
    own=OWN, guard=None, cors=True, health="/health", live=None, hindrance=no_hindrance, mounts=()
) -> Routes:
    settings = Settings(http=HttpOptions(cors=cors, readiness_path=health, liveness_path=live))
    return Routes(own, mounts, guard or Guard(), settings, None, hindrance=hindrance)


def client(app, base_url="http://localhost:8000", **options) -> TestClient:
    return TestClient(app, base_url, follow_redirects=False, **options)


def test_site_root_names_endpoint():
    app = Server("travel").asgi()
    actual = client(app).post("/", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert (actual.status_code, actual.text) == (404, "Not Found. The MCP endpoint is at /mcp")
    below = client(Starlette(routes=[Mount("/travel", app)])).get("/travel/")
    assert below.text == "Not Found. The MCP endpoint is at /travel/mcp"
    hidden = client(Server("travel").asgi(path="/hard-to-guess")).get("/")
    assert (hidden.status_code, hidden.text) == (404, "Not Found")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_route_at_endpoint_path_is_refused(path):
    with pytest.raises(RegistrationError, match=rf"route\('{path}'\): path='/mcp' of server.asgi"):
        make_routes([CustomRoute(path, hello, ["POST"], None)])


def test_route_added_later_at_reserved_path_stops_start():
    server = Server("s")
    app = server.asgi()
    server.route("/messages")(hello)
    with pytest.raises(RegistrationError, match=r"HttpOptions\(sse=True\) of server.asgi"), client(app):
        pass


def test_route_exception_is_not_disclosed():
    with pytest.raises(RuntimeError, match="secret detail"):
        client(make_routes()).get("/broken")
    answer = client(make_routes(), raise_server_exceptions=False).get("/broken")
    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_route_is_guarded():
    http = client(
        make_routes(guard=Guard(allowed_hosts=["example.com"], allowed_origins=["https://app.example"]))
    )
    refused = http.get("/hello", headers={"Host": "evil.example"})
    assert refused.status_code == 421
    assert 'server.asgi(allowed_hosts=["evil.example"])' in refused.text
    refused = http.get("/hello", headers={"Origin": "https://evil.example"})
    assert refused.status_code == 403
    assert 'server.asgi(allowed_origins=["https://evil.example"])' in refused.text
    assert refused.headers["content-type"].startswith("text/plain")
    allowed = http.get("/hello", headers={"Host": "example.com", "Origin": "https://app.example"})
    assert allowed.status_code == 200


def test_mounted_app_has_own_guard():
    inner = make_routes(guard=Guard(allowed_hosts=["inner.example"]))
    outer = make_routes(guard=Guard(allowed_hosts=["outer.example"]), mounts=[("/inner", inner)])
    http = client(outer)
    for path, host, status in (
        ("/inner/hello", "inner.example", 200),
        ("/inner/hello", "outer.example", 421),
        ("/hello", "outer.example", 200),
        ("/hello", "inner.example", 421),
    ):
        assert http.get(path, headers={"Host": host}).status_code == status


def test_cors_preflight_is_answered():
    answer = client(make_routes()).options("/hello", headers=PREFLIGHT)
    assert answer.status_code == 200
    headers = answer.headers
    assert headers["access-control-allow-origin"] == PAGE
    assert {"GET", "POST", "DELETE", "OPTIONS"} <= set(headers["access-control-allow-methods"].split(", "))
    assert headers["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert int(headers["access-control-max-age"]) > 0
    assert "Origin" in headers["vary"].split(", ")
    assert "access-control-allow-credentials" not in headers
    assert "access-control-allow-private-network" not in headers


def test_cors_preflight_of_other_origin_is_refused():
    answer = client(make_routes()).options("/hello", headers=PREFLIGHT | {"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "allowed_origins" in answer.text
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_cors_wildcard_does_not_echo_origin():
    guard = Guard(allowed_origins=["*"])
    http = client(make_routes(guard=guard))
    for answer in (
        http.get("/hello", headers={"Origin": "https://any.example", "Cookie": "a=b"}),
        http.options("/hello", headers=PREFLIGHT | {"Origin": "https://any.example"}),
    ):
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


def test_cors_disabled_sends_no_headers():
    http = client(make_routes(cors=False))
    answer = http.get("/hello", headers={"Origin": PAGE})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert http.options("/hello", headers=PREFLIGHT).status_code == 405


WELL_KNOWN = "/.well-known/oauth-protected-resource"


async def metadata(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.path_params.get('name', 'all')} at {request.url_for('place')}")


async def below(request: Request) -> PlainTextResponse:
    return PlainTextResponse("below")


@pytest.fixture
def outside_server() -> Server:
    outside_server = Server("s")
    outside_server.route(WELL_KNOWN, name="place", outside_mount=True)(metadata)
    outside_server.route(WELL_KNOWN + "/{name:path}", outside_mount=True)(metadata)
    outside_server.route("/below")(below)
    return outside_server


def site_client(app: Any, **options: Any) -> TestClient:
    return TestClient(app, "http://localhost:8000", follow_redirects=False, **options)


def mounted(app: HttpApp, at: str = "/api") -> Starlette:
    return Starlette(routes=[Mount(at, app), Route("/", lambda request: PlainTextResponse("home"))])


METADATA_TEXT = f"all at http://localhost:8000{WELL_KNOWN}"


@pytest.mark.parametrize("at", ["/api", "/"])
def test_outside_route_is_at_site_root_only(outside_server: Server, at: str) -> None:
    app = outside_server.asgi()
    with site_client(app.around(mounted(app, at))) as client:
        assert client.get(WELL_KNOWN).text == METADATA_TEXT
        assert client.get(f"{WELL_KNOWN}/api/mcp").text == METADATA_TEXT.replace("all", "api/mcp")
        assert client.get(f"{at.rstrip('/')}/below").text == "below"
        if at != "/":
            assert client.get(at + WELL_KNOWN).status_code == 404
            assert client.get("/below").status_code == 404
            assert client.get("/").text == "home"


def test_outside_route_is_guarded_without_principal(outside_server: Server) -> None:
    def refuse(scope: Any) -> Principal:
        raise AssertionError("no principal is needed")

    app = outside_server.asgi(http=HttpOptions(principal=refuse))
    client = site_client(app.around(mounted(app)))
    assert client.get(WELL_KNOWN, headers={"Host": "evil.example"}).status_code == 421
    assert client.get(WELL_KNOWN, headers={"Origin": "https://evil.example"}).status_code == 403
    page = {"Origin": "http://localhost:6274"}
    assert client.get(WELL_KNOWN, headers=page).headers["access-control-allow-origin"] == page["Origin"]
    preflight = client.options(WELL_KNOWN, headers={**page, "Access-Control-Request-Method": "GET"})
    assert preflight.headers["access-control-allow-origin"] == page["Origin"]


def test_websocket_is_closed():
    with pytest.raises(WebSocketDisconnect), client(make_routes()).websocket_connect("/hello"):
        pass
