"""What is served beside the MCP endpoint."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from mcpkit import Server
from mcpkit.common.errors import RegistrationError
from mcpkit.transports.http.intake.cors import Cors
from mcpkit.transports.http.intake.guard import Guard
from mcpkit.transports.http.options import OwnRoute, Settings
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
    OwnRoute("/hello", hello, ["GET"], None),
    OwnRoute("/hello/{name}", hello, None, "greet"),
    OwnRoute("/blocking", blocking, ["GET"], None),
    OwnRoute("/where", where, ["GET"], None),
    OwnRoute("/teapot", teapot, ["GET"], None),
    OwnRoute("/broken", broken, ["GET"], None),
    OwnRoute("/change", change, ["PUT", "POST"], None),
]


async def nothing(is_shared_needed: bool) -> str | None:
    return None


def served(
    own=OWN, guard=None, cors=True, health="/health", live=None, hindrance=nothing, mounts=()
) -> Routes:
    settings = Settings(cors=cors, health=health, live=live)
    return Routes(own, mounts, guard or Guard(), settings, None, hindrance=hindrance)


def client(app, base_url="http://localhost:8000", **options) -> TestClient:
    return TestClient(app, base_url, follow_redirects=False, **options)


@pytest.mark.parametrize(
    ("path", "text"),
    [("/hello", "Hello, world"), ("/hello/Ada", "Hello, Ada"), ("/blocking", "from a thread")],
)
def test_own_routes_are_served(path, text):
    answer = client(served()).get(path)
    assert (answer.status_code, answer.text) == (200, text)


def test_own_routes_take_their_methods_only():
    http = client(served())
    assert http.put("/change", content="x").json() == {"method": "PUT", "body": "x"}
    assert http.head("/hello").status_code == 200
    refused = http.delete("/change")
    assert refused.status_code == 405
    assert set(refused.headers["allow"].split(", ")) == {"PUT", "POST"}


@pytest.mark.parametrize("path", ["/nothing", "/", "//hello", "/hello/Ada/x", "/slash/x"])
def test_any_other_path_is_not_found_and_never_redirected(path):
    assert client(served()).get(path).status_code == 404


def test_who_takes_the_site_for_the_endpoint_is_told_where_that_is():
    app = Server("travel").asgi()
    told = client(app).post("/", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert (told.status_code, told.text) == (404, "Not Found: the MCP endpoint is at /mcp")
    below = client(Starlette(routes=[Mount("/travel", app)])).get("/travel/")
    assert below.text == "Not Found: the MCP endpoint is at /travel/mcp"
    hidden = client(Server("travel").asgi(path="/hard-to-guess")).get("/")
    assert (hidden.status_code, hidden.text) == (404, "Not Found")


def test_a_slash_at_the_end_is_as_good_as_none():
    own = [*OWN, OwnRoute("/slash/", hello, ["GET"], None)]
    http = client(served(own))
    for path in ("/hello/", "/hello/Ada/", "/health/", "/slash/", "/slash"):
        assert http.get(path).status_code == 200
    assert http.delete("/hello/").status_code == 405


def test_a_route_that_is_added_later_is_served():
    own = OWN.copy()
    http = client(served(own))
    assert http.get("/later").status_code == 404
    own.append(OwnRoute("/later", hello, ["GET"], None))
    assert http.get("/later").status_code == 200


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_route_does_not_take_the_path_of_an_endpoint(path):
    with pytest.raises(RegistrationError, match=rf"route\('{path}'\).*server.asgi\(path='/mcp'\)"):
        served([OwnRoute(path, hello, ["POST"], None)])


@pytest.mark.parametrize("methods", [None, ["GET"], ["post", "head"]])
def test_a_route_does_not_take_the_path_of_readiness(methods):
    with pytest.raises(RegistrationError, match=r"route\('/health/'\).*server.asgi\(health='/health'\)"):
        served([OwnRoute("/health/", hello, methods, None)])


def test_a_route_may_have_another_method_of_the_path_of_readiness():
    http = client(served([OwnRoute("/health", hello, ["POST"], None)]))
    assert http.post("/health").text == "Hello, world"
    assert http.get("/health").json() == {"status": "ready"}


def test_a_route_that_is_added_later_stops_the_start_where_its_path_is_taken():
    server = Server("s")
    app = server.asgi()
    server.route("/messages")(hello)
    with pytest.raises(RegistrationError, match=r"asgi\(sse=True\)"), client(app):
        pass


def test_an_http_exception_of_a_route_is_its_answer():
    answer = client(served()).get("/teapot")
    assert (answer.status_code, answer.text) == (418, "short and stout")


def test_any_other_exception_is_told_to_the_operator_alone():
    with pytest.raises(RuntimeError, match="secret detail"):
        client(served()).get("/broken")
    answer = client(served(), raise_server_exceptions=False).get("/broken")
    assert answer.status_code == 500
    assert "secret" not in answer.text


@pytest.mark.parametrize("prefix", ["", "/a", "/a/b"])
def test_url_for_knows_the_mount_point(prefix):
    app = served()
    for segment in reversed(prefix.split("/")[1:]):
        app = Starlette(routes=[Mount(f"/{segment}", app)])
    answer = client(app).get(f"{prefix}/where")
    assert (answer.status_code, answer.text) == (200, f"http://localhost:8000{prefix}/where")


def test_url_for_knows_the_prefix_of_a_proxy():
    answer = client(served(), root_path="/behind").get("/where")
    assert answer.text == "http://localhost:8000/behind/where"


def test_own_routes_are_guarded():
    http = client(served(guard=Guard(allowed_hosts=["example.com"], allowed_origins=["https://app.example"])))
    refused = http.get("/hello", headers={"Host": "evil.example"})
    assert refused.status_code == 421
    assert 'server.asgi(allowed_hosts=["evil.example"])' in refused.text
    refused = http.get("/hello", headers={"Origin": "https://evil.example"})
    assert refused.status_code == 403
    assert 'server.asgi(allowed_origins=["https://evil.example"])' in refused.text
    assert refused.headers["content-type"].startswith("text/plain")
    allowed = http.get("/hello", headers={"Host": "example.com", "Origin": "https://app.example"})
    assert allowed.status_code == 200


def test_another_app_is_served_below_a_path():
    inner = served([OwnRoute("/where", where, ["GET"], None)], Guard(allowed_hosts=["inner.example"]))
    outer = served(mounts=[("/inner", inner)])
    http = client(Starlette(routes=[Mount("/a", outer)]))
    assert http.get("/a/inner/where").text == "http://localhost:8000/a/inner/where"
    assert http.get("/a/where").text == "http://localhost:8000/a/where"
    assert http.get("/a/inner/nothing").status_code == 404


def test_another_app_has_a_guard_of_its_own():
    inner = served(guard=Guard(allowed_hosts=["inner.example"]))
    outer = served(guard=Guard(allowed_hosts=["outer.example"]), mounts=[("/inner", inner)])
    http = client(outer)
    for path, host, status in (
        ("/inner/hello", "inner.example", 200),
        ("/inner/hello", "outer.example", 421),
        ("/hello", "outer.example", 200),
        ("/hello", "inner.example", 421),
    ):
        assert http.get(path, headers={"Host": host}).status_code == status


@pytest.mark.parametrize("path", ["/inner", "/inner/"])
def test_an_app_is_served_at_the_path_itself_too(path):
    inner = served(own=[OwnRoute("/", hello, ["GET"], None)])
    outer = served(mounts=[("/inner", inner)])
    assert client(outer).get(path).status_code == 200


def test_a_websocket_is_closed():
    with pytest.raises(WebSocketDisconnect), client(served()).websocket_connect("/hello"):
        pass


def test_readiness_is_told():
    reason: str | None = "starting"
    asked: list[bool] = []

    async def hindrance(is_shared_needed: bool) -> str | None:
        asked.append(is_shared_needed)
        return reason

    http = client(served(hindrance=hindrance))
    answer = http.get("/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "reason": "starting"})
    assert answer.headers["cache-control"] == "no-store"
    reason = None
    answer = http.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    assert answer.headers["cache-control"] == "no-store"
    assert http.head("/health").status_code == 200
    assert http.post("/health").status_code == 405
    assert all(asked)
    for query, is_needed in (
        ("exclude=shared", False),
        ("exclude=a&exclude=shared", False),
        ("exclude=a", True),
    ):
        assert http.get(f"/health?{query}").status_code == 200
        assert asked[-1] is is_needed


def test_life_is_told_whatever_hinders_work():
    async def hindrance(is_shared_needed: bool) -> str | None:
        raise AssertionError("it is not asked")

    http = client(served(hindrance=hindrance, health=None, live="/live"))
    answer = http.get("/live", headers={"Host": "10.0.0.5:8000"})
    assert (answer.status_code, answer.json()) == (200, {"status": "live"})
    assert answer.headers["cache-control"] == "no-store"
    assert http.post("/live").status_code == 405
    assert client(served()).get("/live").status_code == 404


def test_readiness_is_told_to_a_load_balancer_that_asks_by_address():
    http = client(served())
    assert http.get("/health", headers={"Host": "10.0.0.5:8000"}).status_code == 200
    assert http.get("/hello", headers={"Host": "10.0.0.5:8000"}).status_code == 421


@pytest.mark.parametrize("health", ["/health", "/health/", "/"])
def test_readiness_has_any_path(health):
    assert client(served(health=health)).get(health, headers={"Host": "10.0.0.5:8000"}).status_code == 200


def test_readiness_below_a_mount_point_is_told_by_address_too():
    http = client(Starlette(routes=[Mount("/a", served())]))
    assert http.get("/a/health", headers={"Host": "10.0.0.5:8000"}).status_code == 200


def test_there_is_no_readiness_path_unless_asked_for():
    assert client(served(health=None)).get("/health").status_code == 404


def test_a_page_reads_the_answers():
    answer = client(served()).get("/hello", headers={"Origin": PAGE})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers
    exposed = answer.headers["access-control-expose-headers"].lower().split(", ")
    assert {"mcp-session-id", "mcp-protocol-version", "retry-after", "www-authenticate"} == set(exposed)


def test_errors_are_read_by_pages_too():
    for path, status in (("/nothing", 404), ("/teapot", 418)):
        answer = client(served()).get(path, headers={"Origin": PAGE})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, PAGE)


def test_a_cache_is_told_that_answers_differ_by_origin():
    assert client(served()).get("/hello").headers["vary"] == "Origin"


def test_a_preflight_is_answered():
    answer = client(served()).options("/hello", headers=PREFLIGHT)
    assert answer.status_code == 200
    headers = answer.headers
    assert headers["access-control-allow-origin"] == PAGE
    assert {"GET", "POST", "DELETE", "OPTIONS"} <= set(headers["access-control-allow-methods"].split(", "))
    assert headers["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert int(headers["access-control-max-age"]) > 0
    assert "Origin" in headers["vary"].split(", ")
    assert "access-control-allow-credentials" not in headers
    assert "access-control-allow-private-network" not in headers


def test_a_preflight_from_a_public_page_into_a_private_network_is_answered():
    guard = Guard(allowed_origins=["https://app.example"])
    asked = PREFLIGHT | {"Origin": "https://app.example", "Access-Control-Request-Private-Network": "true"}
    answer = client(served(guard=guard)).options("/hello", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-private-network"] == "true"
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_a_preflight_of_another_origin_is_refused_with_the_setting():
    answer = client(served()).options("/hello", headers=PREFLIGHT | {"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "allowed_origins" in answer.text
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_all_origins_are_answered_without_naming_them():
    guard = Guard(allowed_origins=["*"])
    http = client(served(guard=guard))
    for answer in (
        http.get("/hello", headers={"Origin": "https://any.example", "Cookie": "a=b"}),
        http.options("/hello", headers=PREFLIGHT | {"Origin": "https://any.example"}),
    ):
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


def test_without_cors_pages_are_told_nothing():
    http = client(served(cors=False))
    answer = http.get("/hello", headers={"Origin": PAGE})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert http.options("/hello", headers=PREFLIGHT).status_code == 405


def test_cors_wraps_any_app():
    async def app(scope, receive, send):
        await send(
            {
                "type": "http.response.start",
                "status": 202,
                "headers": [(b"mcp-session-id", b"1"), (b"vary", b"Accept")],
            }
        )
        await send({"type": "http.response.body", "body": b""})

    answer = client(Cors(app, Guard())).post("/mcp", headers={"Origin": PAGE})
    assert answer.status_code == 202
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["vary"] == "Accept, Origin"
    assert answer.headers["mcp-session-id"] == "1"
    foreign = client(Cors(app, Guard())).post("/mcp", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in foreign.headers
