"""The metadata documents of a protected server: where they are, what they say, wherever the app is mounted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount

from mcpkit import RegistrationError, Server
from tests.helpers.asgi_client import Serve
from tests.helpers.serving import in_thread
from tests.helpers.verified import ISSUER, Table, bearer

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"
ROOT = "/.well-known/oauth-protected-resource"
MCP = {
    "resource": URL,
    "authorization_servers": [ISSUER],
    "scopes_supported": ["notes:read"],
    "bearer_methods_supported": ["header"],
    "resource_name": "Notes",
}


async def test_each_endpoint_has_a_document(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for path, resource in ((f"{ROOT}/mcp", URL), (f"{ROOT}/sse", URL[:-3] + "sse"), (ROOT, URL)):
            answer = await client.open("GET", path).whole()
            assert answer.status == 200
            assert json.loads(answer.body) == {**MCP, "resource": resource}


async def test_any_page_may_read_it_and_nobody_may_change_it(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        page = {"origin": "https://anywhere.example", "access-control-request-method": "GET"}
        answer = await client.open("GET", f"{ROOT}/mcp", headers=page).whole()
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
        asked = {**page, "access-control-request-headers": "mcp-protocol-version"}
        answer = await client.open("OPTIONS", f"{ROOT}/mcp", headers=asked).whole()
        assert answer.status == 204
        assert answer.headers["access-control-allow-headers"] == "mcp-protocol-version"
        assert (await client.open("HEAD", f"{ROOT}/mcp").whole()).status == 200
        assert (await client.open("POST", f"{ROOT}/mcp").whole()).status == 405


async def test_what_a_request_says_of_its_way_is_not_believed(server: Server, serve: Serve) -> None:
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "http", "x-forwarded-prefix": "/evil"}
    async with serve(server) as client:
        assert json.loads((await client.open("GET", f"{ROOT}/mcp", headers=forged).whole()).body) == MCP
        answer = await client.call("whoami", headers=forged).whole()
        assert "evil" not in answer.headers["www-authenticate"]
        evil = await client.call("whoami", headers={"host": "evil.example", **bearer("ada")}).whole()
        assert evil.status == 421


@pytest.mark.parametrize(
    ("public_url", "path", "documents"),
    [
        ("https://e.example/mcp", "/mcp", [ROOT, f"{ROOT}/mcp", f"{ROOT}/sse"]),
        ("HTTPS://E.EXAMPLE/mcp/", "/mcp", [ROOT, f"{ROOT}/mcp", f"{ROOT}/sse"]),
        (
            "https://e.example/a/b/mcp",
            "/mcp",
            [f"{ROOT}/mcp", f"{ROOT}/a/b/mcp", f"{ROOT}/sse", f"{ROOT}/a/b/sse"],
        ),
        ("https://e.example/", "/", [ROOT, f"{ROOT}/sse"]),
        ("https://e.example/x/", "/", [ROOT, f"{ROOT}/x", f"{ROOT}/x/sse", f"{ROOT}/sse"]),
    ],
)
async def test_the_document_follows_the_public_url(
    server: Server, serve: Serve, public_url: str, path: str, documents: list[str]
) -> None:
    async with serve(server, public_url=public_url, path=path) as client:
        answer = await client.open("POST", path, headers={"content-type": "application/json"}).whole()
        where = answer.headers["www-authenticate"].split('resource_metadata="')[1].split('"')[0]
        assert where.startswith("https://e.example/")
        found = {each: (await client.open("GET", each).whole()).status for each in documents}
        assert set(found.values()) == {200}, found
        assert json.loads((await client.open("GET", documents[0]).whole()).body)[
            "resource"
        ] == public_url.lower().rstrip("/")


async def test_a_proxy_may_serve_it_under_another_name(server: Server, serve: Serve) -> None:
    async with serve(server, public_url="https://e.example/notes", sse=False) as client:
        answer = await client.call("whoami").whole()
        assert f'"https://e.example{ROOT}/notes"' in answer.headers["www-authenticate"]
        assert (
            json.loads((await client.open("GET", f"{ROOT}/notes").whole()).body)["resource"]
            == "https://e.example/notes"
        )


def test_two_servers_mounted_in_one_site_are_told_apart(make: Callable[..., Server], table: Table) -> None:
    apps = {}
    for name in ("a", "b"):
        apps[name] = make().asgi(public_url=f"http://127.0.0.1:8000/{name}/mcp")
    well_known = [route for app in apps.values() for route in app.well_known()]
    site = Starlette(routes=[*well_known, *(Mount(f"/{name}", app) for name, app in apps.items())])
    with in_thread(site) as url, httpx2.Client(base_url=url) as client:
        for name in apps:
            asked = client.post(f"/{name}/mcp", json={})
            assert asked.status_code == 401
            where = asked.headers["www-authenticate"].split('resource_metadata="')[1].split('"')[0]
            assert where == f"http://127.0.0.1:8000/{name}{ROOT}/mcp"
            for path in (where.removeprefix("http://127.0.0.1:8000"), f"{ROOT}/{name}/mcp"):
                assert client.get(path).json()["resource"] == f"http://127.0.0.1:8000/{name}/mcp"
            assert client.get(f"{ROOT}/{name}/sse").json()["resource"].endswith(f"/{name}/sse")
        assert client.get(ROOT).status_code == 404
        for name in apps:
            client.post(f"/{name}/mcp", json={}, headers=bearer("ada"))
    assert [audience for _, audience in table.asked] == [f"http://127.0.0.1:8000/{name}/mcp" for name in apps]


async def test_where_another_server_is_protected_too_the_root_stands_for_neither(
    make: Callable[..., Server], serve: Serve
) -> None:
    async with serve(make()) as client:
        assert (await client.open("GET", ROOT).whole()).status == 200
        client.app.mount("/open", Server("open").asgi())  # type: ignore[attr-defined]
        assert (await client.open("GET", ROOT).whole()).status == 200
        client.app.mount("/other", make().asgi(public_url="https://mcp.example.com/other/mcp"))  # type: ignore[attr-defined]
        assert (await client.open("GET", ROOT).whole()).status == 404
        assert (await client.open("GET", f"{ROOT}/mcp").whole()).status == 200
        assert (await client.open("GET", f"/other{ROOT}/mcp").whole()).status == 200


def test_an_app_around_it_serves_the_document_at_the_root(make: Callable[..., Server]) -> None:
    app = make().asgi(public_url="http://127.0.0.1:8000/a/mcp")
    site = app.around(Starlette(routes=[Mount("/a", app)]))
    with in_thread(site) as url, httpx2.Client(base_url=url) as client:
        assert client.get(f"{ROOT}/a/mcp").status_code == 200
        assert client.get(f"/a{ROOT}/mcp").status_code == 200
        assert client.get("/elsewhere").status_code == 404


# Routes of the author's own


@pytest.fixture
def routed(server: Server) -> Server:
    @server.route("/open")
    def open_(request: Request) -> Response:
        return PlainTextResponse("open")

    @server.route("/mine", scopes=())
    def mine(request: Request) -> Response:
        return PlainTextResponse(request.state.principal.subject)

    @server.route("/export", scopes="notes:read", methods=["POST"])
    async def export(request: Request) -> Response:
        return PlainTextResponse("exported")

    return server


async def test_own_routes_take_the_same_tokens_where_they_say_so(routed: Server, serve: Serve) -> None:
    async with serve(routed) as client:
        assert (await client.open("GET", "/open").whole()).body == b"open"
        assert (await client.open("GET", "/mine").whole()).status == 401
        assert (await client.open("GET", "/mine", headers=bearer("ada")).whole()).body == b"ada"
        answer = await client.open("POST", "/export", headers=bearer("ada")).whole()
        assert answer.status == 403
        assert 'scope="notes:read"' in answer.headers["www-authenticate"]
        answer = await client.open("POST", "/export", headers=bearer("ada", ["notes:admin"])).whole()
        assert answer.body == b"exported"


def test_own_routes_need_scopes_that_there_are(routed: Server) -> None:
    with pytest.raises(RegistrationError, match="did you mean 'notes:read'"):
        routed.route("/x", scopes="notes:reed")
    with pytest.raises(RegistrationError, match="takes a server that has auth="):
        Server("s").route("/x", scopes=())


# What is open to anybody


@pytest.fixture
def half_open(make: Callable[..., Server]) -> Server:
    server = make()

    @server.tool(anonymous=True)
    async def weather() -> str:
        """Tell the weather."""
        return "fine"

    return server


async def test_what_is_anonymous_needs_no_token_and_the_rest_does(half_open: Server, serve: Serve) -> None:
    async with serve(half_open) as client:
        for method in ("server/discover", "tools/list", "prompts/list"):
            assert (await client.ask(method).whole()).status == 200, method
        assert (await client.call("weather").whole()).status == 200
        answer = await client.call("whoami").whole()
        assert (answer.status, "error" in answer.headers["www-authenticate"]) == (401, False)
        answer = await client.call("add").whole()
        assert (answer.status, 'scope="notes:write"' in answer.headers["www-authenticate"]) == (401, True)
        assert (await client.call("weather", headers=bearer("bad")).whole()).status == 401
        assert (await client.call("whoami", headers=bearer("ada")).whole()).status == 200
        session = await client.initialize()
        assert await session.text("weather") == "fine"
        assert (await session.call("whoami").whole()).status == 401


async def test_when_nothing_is_anonymous_any_more_the_door_is_shut(half_open: Server, serve: Serve) -> None:
    async with serve(half_open) as client:
        half_open.tools.disable("weather")
        assert (await client.ask("tools/list").whole()).status == 401
        half_open.tools.enable("weather")
        assert (await client.ask("tools/list").whole()).status == 200


@pytest.mark.parametrize("options", [{}, {"port": 0}])
def test_run_knows_the_url_on_loopback(
    server: Server, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mcpkit.transports.http.run as running

    seen: list[Any] = []
    monkeypatch.setattr(running, "run_app", lambda app, *rest: seen.append((app, rest[-1])))
    server.run("http", **options)
    app, listening = seen[0]
    port = 8000 if listening is None else listening.getsockname()[1]
    assert app.settings.public_url == f"http://127.0.0.1:{port}/mcp"
    if listening is not None:
        listening.close()


def test_run_elsewhere_must_be_told_the_url(server: Server) -> None:
    with pytest.raises(ValueError, match="must know where its clients reach it"):
        server.run("http", host="0.0.0.0")
    with pytest.raises(ValueError, match="must know where its clients reach it"):
        server.run("http", uvicorn={"ssl_certfile": "x"})
