"""DevAuth: options, hosts and proxies it refuses, what it stores, and its audit events."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from mcpkit import Sqlite
from mcpkit.auth import DevAuth, DevClient, DevUser, InvalidTokenError, Site, VerifierUnavailableError
from mcpkit.common.errors import RegistrationError
from mcpkit.state.audit import AuditEvent
from mcpkit.state.sealed import Sealed
from tests.helpers.oauth_flow import (
    CALLBACK,
    MCP,
    ORIGIN,
    AuthServer,
    Login,
    PageForms,
    code_of,
    site,
    submit_login,
)
from tests.helpers.tables import each_row

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
    code = code_of(await submit_login(browser, login, user))
    found: dict[str, Any] = (await browser.post("/token", data=login.form(code))).json()
    return found


async def test_dev_auth_logs_in_a_user():
    auth = DevAuth(users=["ada", "bob"])
    async with served(auth) as browser:
        tokens = await logged_in(auth, browser, "bob")
    assert auth.issuers == (ORIGIN,)
    assert (await auth.verify(tokens["access_token"], MCP)).principal.subject == "bob"


@each_row(
    "origin",
    [
        "https://mcp.example.com", "http://192.168.0.7:8000", "http://0.0.0.0:8000",
        "http://localhost.example.com", "http://[::]:8000", "http://127.0.0.1.nip.io",
    ],
)  # fmt: skip
async def test_dev_auth_requires_loopback_url(origin):
    with pytest.raises(ValueError, match=r"loopback URL alone.*Jwt\("):
        DevAuth().enter(site(origin=origin))
    with pytest.raises(ValueError, match="loopback URL alone"):
        DevAuth(issuer=origin).enter(site())


async def test_dev_auth_issuer_is_at_public_origin():
    with pytest.raises(ValueError, match="at the origin of public_url"):
        DevAuth(issuer="http://127.0.0.1:9000").enter(site())
    auth = DevAuth(issuer=f"{ORIGIN}/login")
    async with served(auth) as browser:
        found = (await browser.get("/.well-known/oauth-authorization-server/login")).json()
        assert found["issuer"] == f"{ORIGIN}/login"
        assert found["token_endpoint"] == f"{ORIGIN}/login/token"
        assert (await browser.post("/login/token")).status_code == 400


async def test_dev_auth_without_client_documents():
    auth = DevAuth(client_documents=False)
    async with served(auth) as browser:
        found = (await browser.get("/.well-known/oauth-authorization-server")).json()
        assert found["client_id_metadata_document_supported"] is False
        login = Login("https://client.example/client.json")
        page = await browser.get("/authorize", params=login.query)
        assert page.status_code == 400
        assert "register anew" in page.text
        assert "access_token" in await logged_in(auth, browser, "dev")


async def test_dev_auth_serves_one_site():
    auth = DevAuth()
    with pytest.raises(RuntimeError, match="enter"):
        auth.routes()
    auth.enter(site())
    auth.enter(site())
    with pytest.raises(ValueError, match="make another one"):
        auth.enter(site(origin="http://127.0.0.1:9000"))


FORWARDED = (
    "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded", "X-Original-Host",
    "X-Real-IP", "Via", "CF-Connecting-IP", "True-Client-IP", "Fly-Client-IP",
)  # fmt: skip


@each_row("name", FORWARDED)
async def test_dev_auth_rejects_proxy_headers(name):
    auth = DevAuth()
    async with served(auth) as browser:
        for route in auth.routes():
            response = await browser.request(method_of(route), route.path, headers={name: "x"})
            assert response.status_code == 403
            assert name.lower() in response.text
    assert name.lower() in (auth.refusal({b"host": b"127.0.0.1", name.lower().encode(): b""}) or "")


@each_row(
    "host", ["mcp.example.com", "127.0.0.1.evil.example:8000", "192.168.0.7:8000", "", "[::]", "0.0.0.0", "é"]
)
async def test_dev_auth_rejects_other_hosts(host):
    auth = DevAuth()
    async with served(auth) as browser:
        for route in auth.routes():
            headers = {"Host": host.encode()}
            response = await browser.request(method_of(route), route.path, headers=headers)
            assert response.status_code == 403
    assert auth.refusal({b"host": host.encode()}) is not None
    assert auth.refusal({}) is not None


@each_row("host", ["127.0.0.1:8000", "localhost", "LocalHost:1", "[::1]:8000", "127.0.0.2"])
async def test_dev_auth_accepts_loopback_hosts(host):
    assert DevAuth().refusal({b"host": host.encode(), b"user-agent": b"x"}) is None


async def test_dev_auth_rejects_other_addresses():
    auth = DevAuth()
    auth.enter(site())
    app = Starlette(routes=list(auth.routes()))
    transport = httpx2.ASGITransport(app, client=("192.168.0.7", 5000))
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as neighbour:
        assert (await neighbour.get("/.well-known/oauth-authorization-server")).status_code == 403


@each_row(
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
async def test_dev_auth_options_invalid_raise(make, error):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value)


async def test_dev_auth_repr_hides_secrets():
    user, client = DevUser("ada", password="hidden"), DevClient("ci", secret="hidden")
    assert "hidden" not in repr((user, client))


def record_events(server: AuthServer) -> list[AuditEvent]:
    events: list[AuditEvent] = []
    server.site.audit(events.append)
    return events


def names(events: list[AuditEvent]) -> list[str]:
    return [event.name for event in events]


async def test_audit_login_refresh_and_revocation(server):
    login = await server.login(scope="notes:write")
    events = record_events(server)
    tokens = await server.tokens(login)
    assert events[-1] == AuditEvent(
        "login", f"{ORIGIN}#sub=ada", login.client_id, ORIGIN, scopes=("notes:write",)
    )
    await server.refreshed(tokens, login)
    await server.post("/revoke", {"token": tokens["refresh_token"], "client_id": login.client_id})
    assert names(events) == ["consent", "login", "refresh", "revocation"]
    assert events[-1].principal == f"{ORIGIN}#sub=ada"


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"grant_type": "client_credentials", "client_id": "job", "client_secret": "a secret guess"}, 401),
        ({"grant_type": "refresh_token", "client_id": "job", "client_secret": "right"}, 400),
        ({"grant_type": "a secret guess", "client_id": "job", "client_secret": "right"}, 400),
    ],
)
async def test_audit_refusal_hides_request_values(form, status):
    server = AuthServer(clients=[DevClient("job", secret="right", scopes=["notes:read"])])
    events = record_events(server)
    await server.post("/token", form)
    [event] = events
    assert (event.name, event.status, event.reason) == ("refusal", status, "failed")
    assert event.detail
    assert "guess" not in str(event)


async def test_audit_refusal_names_network(server):
    events = record_events(server)
    transport = httpx2.ASGITransport(server.app, client=("2001:db8::7", 5000))
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        await client.post("/token", data={})
    [event] = events
    assert event.caller == "address 2001:db8::/64"


async def test_audit_registration_and_consent(server):
    events = record_events(server)
    login = await server.login(scope="notes:write")
    [event] = events
    assert (event.name, event.issuer, event.principal, event.detail) == ("registration", ORIGIN, None, None)
    named = event.client_id
    events.clear()
    await server.code(login)
    assert names(events) == ["consent", "login"]
    assert events[0] == AuditEvent(
        "consent",
        client_id=named,
        issuer=ORIGIN,
        detail="allowed, to 127.0.0.1:3000",
        scopes=("notes:write",),
    )
    events.clear()
    async with server.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
        await browser.post("/authorize", data=PageForms(page.text).forms[-1])
    [event] = events
    assert (event.name, event.detail, event.client_id) == ("consent", "denied, to 127.0.0.1:3000", named)


async def test_audit_registrations_are_limited(server):
    events = record_events(server)
    for _ in range(20):
        await server.registered(redirect_uris=[CALLBACK])
    assert names(events) == ["registration"] * 5


async def test_audit_wrong_password_is_refusal():
    server = AuthServer([DevUser("ada", password="right")])
    login = await server.login()
    events = record_events(server)
    async with server.browser() as browser:
        await submit_login(browser, login, "ada", "a guess")
    [event] = events
    assert (event.name, event.status, event.detail) == ("refusal", 403, "a wrong password")


async def test_dev_auth_start_logs_users(caplog):
    auth = DevAuth(users=["ada", DevUser("bob", password="hidden")])
    for _ in range(2):
        auth.enter(AuthServer().site)
    [record] = caplog.records
    assert record.getMessage() == (f"notes: whoever opens {ORIGIN} on this machine may log in as ada, bob")


async def test_store_file_is_useless_without_secret(tmp_path):
    server = AuthServer(shared=Sqlite(tmp_path / "shared.db"))
    login = await server.login()
    tokens = await server.tokens(login)
    thief = AuthServer(shared=Sqlite(tmp_path / "shared.db"), secret="quite another secret of a server")
    with pytest.raises(InvalidTokenError):
        await thief.granted(tokens)
    assert (await thief.refreshed(tokens, login)).json()["error"] == "invalid_client"
    own = Login((await thief.registered())["client_id"])
    assert (await thief.refreshed(tokens, own)).json()["error"] == "invalid_grant"


async def test_grant_of_previous_version_is_read(server, login, tokens):
    grants = Sealed(server.site.shared, server.site.keys, "grants")
    [before] = [record async for record in grants.items("")]
    found = await grants.get(before["id"])
    assert found is not None
    older = {name: value for name, value in before.items() if name != "held"}
    await grants.put(before["id"], {**older, "version": 1}, version=found[1], ttl=600)
    assert (await server.granted(tokens)).principal.subject == "ada"
    assert (await server.refreshed(tokens, login)).status_code == 200
    found = await grants.get(before["id"])
    assert found is not None
    await grants.put(before["id"], {**before, "version": 3}, version=found[1], ttl=600)
    with pytest.raises(VerifierUnavailableError):
        await server.granted(tokens)
