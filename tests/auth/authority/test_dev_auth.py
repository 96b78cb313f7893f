"""`DevAuth`: who may use it, and where it refuses to be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from mcpkit import Server
from mcpkit.auth import DevAuth, DevClient, DevUser, Site
from mcpkit.common.errors import RegistrationError
from tests.helpers.authority_site import CALLBACK, MCP, ORIGIN, Login, clicked, code_of, site
from tests.helpers.nginx import free_ports, proxying
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.anyio


def served(auth: DevAuth, where: Site | None = None, **options: Any) -> httpx2.AsyncClient:
    auth.enter(where or site())
    app = Starlette(routes=list(auth.routes()))
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000), **options)
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN)


def method_of(route: Route) -> str:
    return "POST" if "POST" in (route.methods or ()) else "GET"


async def logged_in(auth: DevAuth, browser: httpx2.AsyncClient, user: str = "ada") -> dict[str, Any]:
    metadata = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    registered = (await browser.post("/register", json=metadata)).json()
    login = Login(registered["client_id"])
    code = code_of(await clicked(browser, login, user))
    found: dict[str, Any] = (await browser.post("/token", data=login.form(code))).json()
    return found


async def test_one_line_is_a_whole_authorization_server() -> None:
    auth = DevAuth(users=["ada", "bob"])
    async with served(auth) as browser:
        tokens = await logged_in(auth, browser, "bob")
    assert auth.issuers == (ORIGIN,)
    assert (await auth.verify(tokens["access_token"], MCP)).principal.subject == "bob"


async def test_several_workers_are_one_when_they_share_secret_and_store() -> None:
    shared = site().shared
    one, other = DevAuth(users=["ada"]), DevAuth(users=["ada"])
    other.enter(site(shared=shared))
    async with served(one, site(shared=shared)) as browser:
        tokens = await logged_in(one, browser)
    assert (await other.verify(tokens["access_token"], MCP)).principal.subject == "ada"


@pytest.mark.parametrize(
    "origin",
    [
        "https://mcp.example.com",
        "http://192.168.0.7:8000",
        "http://0.0.0.0:8000",
        "http://localhost.example.com",
        "http://[::]:8000",
        "http://127.0.0.1.nip.io",
    ],
)
async def test_it_refuses_to_start_where_others_can_reach_it(origin: str) -> None:
    with pytest.raises(ValueError, match=r"loopback URL alone.*Jwt\("):
        DevAuth().enter(site(origin=origin))
    with pytest.raises(ValueError, match="loopback URL alone"):
        DevAuth(issuer=origin).enter(site())


async def test_the_issuer_is_where_it_answers() -> None:
    with pytest.raises(ValueError, match="at the origin of public_url"):
        DevAuth(issuer="http://127.0.0.1:9000").enter(site())
    auth = DevAuth(issuer=f"{ORIGIN}/login")
    async with served(auth) as browser:
        found = (await browser.get("/.well-known/oauth-authorization-server/login")).json()
        assert found["issuer"] == f"{ORIGIN}/login"
        assert found["token_endpoint"] == f"{ORIGIN}/login/token"
        assert (await browser.post("/login/token")).status_code == 400


async def test_without_documents_clients_register_themselves() -> None:
    auth = DevAuth(client_documents=False)
    async with served(auth) as browser:
        found = (await browser.get("/.well-known/oauth-authorization-server")).json()
        assert found["client_id_metadata_document_supported"] is False
        login = Login("https://client.example/client.json")
        page = await browser.get("/authorize", params=login.query)
        assert page.status_code == 400
        assert "register anew" in page.text
        assert "access_token" in await logged_in(auth, browser, "dev")


async def test_what_is_not_installed_is_missed_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc.jwk", None)
    with pytest.raises(ImportError, match=r"authorization needs joserfc\. Run: .*\[auth\]"):
        DevAuth().enter(site())


async def test_one_of_it_serves_one_site() -> None:
    auth = DevAuth()
    with pytest.raises(RuntimeError, match="enter"):
        auth.routes()
    auth.enter(site())
    auth.enter(site())
    with pytest.raises(ValueError, match="make another one"):
        auth.enter(site(origin="http://127.0.0.1:9000"))


FORWARDED = (
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded",
    "X-Original-Host",
    "X-Real-IP",
    "Via",
    "CF-Connecting-IP",
    "True-Client-IP",
    "Fly-Client-IP",
)


@pytest.mark.parametrize("name", FORWARDED)
async def test_it_answers_nobody_behind_a_proxy(name: str) -> None:
    auth = DevAuth()
    async with served(auth) as browser:
        for route in auth.routes():
            response = await browser.request(method_of(route), route.path, headers={name: "x"})
            assert response.status_code == 403
            assert name.lower() in response.text
    assert name.lower() in (auth.refusal({b"host": b"127.0.0.1", name.lower().encode(): b""}) or "")


@pytest.mark.parametrize(
    "host", ["mcp.example.com", "127.0.0.1.evil.example:8000", "192.168.0.7:8000", "", "[::]", "0.0.0.0", "é"]
)
async def test_it_answers_under_no_other_name(host: str) -> None:
    auth = DevAuth()
    async with served(auth) as browser:
        for route in auth.routes():
            headers = {"Host": host.encode()}
            response = await browser.request(method_of(route), route.path, headers=headers)
            assert response.status_code == 403
    assert auth.refusal({b"host": host.encode()}) is not None
    assert auth.refusal({}) is not None


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LocalHost:1", "[::1]:8000", "127.0.0.2"])
async def test_it_answers_under_every_name_of_this_machine(host: str) -> None:
    assert DevAuth().refusal({b"host": host.encode(), b"user-agent": b"x"}) is None


async def test_it_answers_no_other_machine_whatever_that_says() -> None:
    auth = DevAuth()
    auth.enter(site())
    app = Starlette(routes=list(auth.routes()))
    transport = httpx2.ASGITransport(app, client=("192.168.0.7", 5000))
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as neighbour:
        assert (await neighbour.get("/.well-known/oauth-authorization-server")).status_code == 403


def test_nobody_logs_in_by_way_of_nginx_as_it_is_by_default(tmp_path: Path) -> None:
    server = Server("notes", auth=DevAuth())
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        passed_on = f"location / {{ proxy_pass {origin}; }}"
        with proxying(free_ports(), tmp_path, passed_on) as proxy, httpx2.Client() as client:
            for path in ("/authorize", "/token", "/register"):
                refused = client.post(proxy.plain + path)
                assert (refused.status_code, "HTTP/1.0" in refused.text) == (403, True)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: DevAuth(users="ada"), TypeError),
        (lambda: DevAuth(users=[7]), TypeError),
        (lambda: DevAuth(users=[]), ValueError),
        (lambda: DevAuth(users=["ada", "ada"]), ValueError),
        (lambda: DevAuth(users=["a\nb"]), ValueError),
        (lambda: DevAuth(users=[""]), ValueError),
        (lambda: DevAuth(users=["ci"], clients=[DevClient("ci", secret="x")]), ValueError),
        (lambda: DevAuth(clients=["ci"]), TypeError),
        (lambda: DevAuth(token_lifetime=0), ValueError),
        (lambda: DevUser(7), TypeError),
        (lambda: DevUser("ada", password=""), ValueError),
        (lambda: DevUser("ada", password=7), TypeError),
        (lambda: DevUser("ada", claims={"sub": "bob"}), ValueError),
        (lambda: DevUser("ada", scopes=["a b"]), RegistrationError),
        (lambda: DevClient("https://x"), ValueError),
        (lambda: DevClient("a b"), ValueError),
        (lambda: DevClient("ci", scopes=[]), ValueError),
        (lambda: DevClient("ci", secret=""), ValueError),
        (lambda: DevClient("ci", redirect_uris=CALLBACK), TypeError),
        (lambda: DevClient("ci", redirect_uris=["javascript:x"]), ValueError),
    ],
)
async def test_what_it_cannot_be_made_of_is_said(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value)


async def test_neither_passwords_nor_secrets_are_shown() -> None:
    user, client = DevUser("ada", password="hidden"), DevClient("ci", secret="hidden")
    assert "hidden" not in repr((user, client))
