"""Routes outside the mount: their paths begin at the root of the site, wherever the app is mounted."""

from __future__ import annotations

from typing import Any

import pytest
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from mcpkit import Principal, RegistrationError, Server
from mcpkit.transports.http.app import HttpApp

PLACE = "/.well-known/oauth-protected-resource"


async def place(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.path_params.get('name', 'all')} at {request.url_for('place')}")


async def below(request: Request) -> PlainTextResponse:
    return PlainTextResponse("below")


@pytest.fixture
def server() -> Server:
    server = Server("s")
    server.route(PLACE, name="place", outside_mount=True)(place)
    server.route(PLACE + "/{name:path}", outside_mount=True)(place)
    server.route("/below")(below)
    return server


def http(app: Any, **options: Any) -> TestClient:
    return TestClient(app, "http://localhost:8000", follow_redirects=False, **options)


def mounted(app: HttpApp, at: str = "/api") -> Starlette:
    return Starlette(routes=[Mount(at, app), Route("/", lambda request: PlainTextResponse("home"))])


HOME = f"all at http://localhost:8000{PLACE}"


@pytest.mark.parametrize("at", ["/api", "/a/b", "/"])
def test_it_is_at_the_root_of_the_site_alone(server: Server, at: str) -> None:
    app = server.asgi()
    with http(app.around(mounted(app, at))) as client:
        assert client.get(PLACE).text == HOME
        assert client.get(f"{PLACE}/api/mcp").text == HOME.replace("all", "api/mcp")
        assert client.get(f"{at.rstrip('/')}/below").text == "below"
        if at != "/":
            assert client.get(at + PLACE).status_code == 404
            assert client.get("/below").status_code == 404
            assert client.get("/").text == "home"


def test_an_app_that_is_not_mounted_serves_it_itself(server: Server) -> None:
    client = http(server.asgi())
    assert client.get(PLACE).text == HOME
    assert client.get("/below").text == "below"


def test_behind_the_prefix_of_a_proxy_it_is_served(server: Server) -> None:
    app = server.asgi()
    for site in (app, app.around(mounted(app))):
        assert http(site, root_path="/behind").get(PLACE).text == HOME.replace(PLACE, "/behind" + PLACE)
    assert http(mounted(app), root_path="/behind").get("/api" + PLACE).status_code == 404


def test_a_mount_that_says_nothing_is_one(server: Server) -> None:
    app = server.asgi()

    @asgi("/api", is_mount=True, copy_scope=True)
    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    client = http(app.around(Litestar([api], logging_config=None)))
    assert client.get(PLACE).text == HOME
    assert client.get("/api/below").text == "below"
    assert client.get("/api" + PLACE).status_code == 404


def test_what_is_mounted_at_the_root_leaves_it_alone(server: Server) -> None:
    app, other = server.asgi(), Server("other")
    other.route("/.well-known/other", outside_mount=True)(below)
    inner = other.asgi()
    app.mount("/other", inner)
    app.mount("/", Starlette(routes=[Route("/{all:path}", lambda request: PlainTextResponse("all"))]))
    client = http(inner.around(app))
    assert client.get(PLACE).text == HOME
    assert client.get("/.well-known/other").text == "below"
    assert client.get("/other/.well-known/other").status_code == 404
    assert client.get("/else").text == "all"


def test_the_guard_and_cors_stand_before_it_and_who_asks_does_not(server: Server) -> None:
    def nobody(scope: Any) -> Principal:
        raise AssertionError("nobody is asked")

    app = server.asgi(principal=nobody)
    client = http(app.around(mounted(app)))
    assert client.get(PLACE, headers={"Host": "evil.example"}).status_code == 421
    assert client.get(PLACE, headers={"Origin": "https://evil.example"}).status_code == 403
    page = {"Origin": "http://localhost:6274"}
    assert client.get(PLACE, headers=page).headers["access-control-allow-origin"] == page["Origin"]
    preflight = client.options(PLACE, headers={**page, "Access-Control-Request-Method": "GET"})
    assert preflight.headers["access-control-allow-origin"] == page["Origin"]


def test_its_methods_and_its_slash_are_those_of_every_route(server: Server) -> None:
    app = server.asgi()
    client = http(app.around(mounted(app)))
    refused = client.post(PLACE)
    assert (refused.status_code, "GET" in refused.headers["allow"]) == (405, True)
    assert client.head(PLACE).status_code == 200
    assert client.get(f"{PLACE}/").status_code == 200


def test_one_that_is_added_later_is_served(server: Server) -> None:
    app = server.asgi()
    client = http(app.around(mounted(app)))
    assert client.get("/.well-known/later").status_code == 404
    server.route("/.well-known/later", outside_mount=True)(below)
    assert client.get("/.well-known/later").text == "below"


def test_it_does_not_take_the_path_of_an_endpoint(server: Server) -> None:
    server.route("/mcp", outside_mount=True)(below)
    with pytest.raises(RegistrationError, match="would never be reached"):
        server.asgi()


def test_the_sites_lifespan_is_its_own(server: Server) -> None:
    begun: list[str] = []
    app = server.asgi()

    async def parent(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["type"])
        await Starlette()(scope, receive, send)

    with http(app.around(parent)) as client:
        client.get(PLACE)
    assert begun == ["lifespan"]
