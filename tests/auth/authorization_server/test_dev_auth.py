"""DevAuth: options, hosts and proxies it refuses, what it stores, and its audit events."""

from functools import partial

import httpx2
import pytest
from starlette.applications import Starlette

from mcpkit._utils.exceptions import RegistrationError
from mcpkit.auth import DevAuth, DevClient, DevUser, InvalidTokenError
from mcpkit.identity.audit_and_revocation import AuditEvent
from mcpkit.storage import Sqlite
from tests.helpers.oauth_flow import CALLBACK, ORIGIN, AuthServer, site
from tests.helpers.tables import each_row


def client_of(auth: DevAuth, address: str = "127.0.0.1") -> httpx2.AsyncClient:
    auth.bind(site())
    transport = httpx2.ASGITransport(Starlette(routes=list(auth.routes())), client=(address, 5000))
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN)


@each_row("origin", [
    "https://mcp.example.com", "http://192.168.0.7:8000", "http://0.0.0.0:8000",
    "http://localhost.example.com", "http://[::]:8000", "http://127.0.0.1.nip.io",
])  # fmt: skip
def test_dev_auth_requires_loopback_url(origin):
    with pytest.raises(ValueError, match=r"only serves loopback URLs.*Jwt\("):
        DevAuth().bind(site(origin=origin))
    with pytest.raises(ValueError, match="only serves loopback URLs"):
        DevAuth(issuer=origin).bind(site())


def test_dev_auth_serves_one_site():
    auth = DevAuth()
    with pytest.raises(RuntimeError, match="bind"):
        auth.routes()
    auth.bind(site())
    auth.bind(site())
    with pytest.raises(ValueError, match="Create another one"):
        auth.bind(site(origin="http://127.0.0.1:9000"))


@each_row(("name", "value"), [
    *((name, "x") for name in (
        "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded",
        "X-Original-Host", "X-Real-IP", "Via", "CF-Connecting-IP", "True-Client-IP", "Fly-Client-IP",
    )),
    *(("Host", host) for host in (
        "mcp.example.com", "127.0.0.1.evil.example:8000", "192.168.0.7:8000", "", "[::]", "0.0.0.0", "é",
    )),
])  # fmt: skip
async def test_dev_auth_rejects_proxy_headers_and_other_hosts(name, value):
    auth = DevAuth()
    async with client_of(auth) as browser:
        for route in auth.routes():
            method = "POST" if "POST" in (route.methods or ()) else "GET"
            response = await browser.request(method, route.path, headers={name: value.encode()})
            assert response.status_code == 403
            assert name == "Host" or name.lower() in response.text
    refusal = auth.refusal({b"host": b"127.0.0.1", name.lower().encode(): value.encode()})
    assert refusal is not None
    assert name == "Host" or name.lower() in refusal
    assert auth.refusal({}) is not None


async def test_dev_auth_rejects_other_addresses():
    async with client_of(DevAuth(), "192.168.0.7") as neighbour:
        assert (await neighbour.get("/.well-known/oauth-authorization-server")).status_code == 403


@each_row(("make", "error"), [
    *((partial(DevAuth, users=users), TypeError) for users in ("ada", [7])),
    *((partial(DevAuth, users=users), ValueError) for users in ([], ["ada", "ada"], ["a\nb"], [""])),
    (partial(DevAuth, users=["ci"], clients=[DevClient("ci", secret="x")]), ValueError),
    (partial(DevAuth, clients=["ci"]), TypeError),
    (partial(DevAuth, token_lifetime=0), ValueError),
    (partial(DevUser, 7), TypeError),
    *((partial(DevUser, "ada", password=value), error)
        for value, error in (("", ValueError), (7, TypeError))),
    (partial(DevUser, "ada", claims={"sub": "bob"}), ValueError),
    (partial(DevUser, "ada", scopes=["a b"]), RegistrationError),
    *((partial(DevClient, name), ValueError) for name in ("https://x", "a b")),
    *((partial(DevClient, "ci", **options), ValueError) for options in (
        {"scopes": []}, {"secret": ""}, {"redirect_uris": ["javascript:x"]},
    )),
    (partial(DevClient, "ci", redirect_uris=CALLBACK), TypeError),
])  # fmt: skip
def test_dev_auth_options_invalid_raise(make, error):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value)


def test_dev_auth_repr_hides_secrets():
    user, client = DevUser("ada", password="hidden"), DevClient("ci", secret="hidden")
    assert "hidden" not in repr((user, client))


def record_events(server: AuthServer) -> list[AuditEvent]:
    events: list[AuditEvent] = []
    server.site.audit(events.append)
    return events


async def test_audit_login_refresh_and_revocation(server):
    login = await server.login(scope="notes:write")
    events = record_events(server)
    tokens = await server.tokens(login)
    ada = f"{ORIGIN}#sub=ada"
    assert events[-1] == AuditEvent("login", ada, login.client_id, ORIGIN, scopes=("notes:write",))
    await server.refreshed(tokens, login)
    await server.post("/revoke", {"token": tokens["refresh_token"], "client_id": login.client_id})
    assert [event.name for event in events] == ["consent", "login", "refresh", "revocation"]
    assert events[-1].principal == ada


async def test_audit_login_of_client_credentials():
    server = AuthServer(clients=[DevClient("job", secret="right", scopes=["notes:read"])])
    events = record_events(server)
    await server.post(
        "/token", {"client_id": "job", "client_secret": "right", "grant_type": "client_credentials"}
    )
    assert events == [AuditEvent("login", f"{ORIGIN}#client=job", "job", ORIGIN, scopes=("notes:read",))]


@each_row(("form", "status"), [
    ({"grant_type": "client_credentials", "client_secret": "a secret guess"}, 401),
    ({"grant_type": "refresh_token", "client_secret": "right"}, 400),
    ({"grant_type": "a secret guess", "client_secret": "right"}, 400),
])  # fmt: skip
async def test_audit_refusal_hides_request_values(form, status):
    server = AuthServer(clients=[DevClient("job", secret="right", scopes=["notes:read"])])
    events = record_events(server)
    await server.post("/token", {"client_id": "job", **form})
    [event] = events
    assert (event.name, event.status, event.reason) == ("refusal", status, "failed")
    assert event.detail
    assert "guess" not in str(event)


async def test_dev_auth_start_logs_users(caplog):
    auth = DevAuth(users=["ada", DevUser("bob", password="hidden")])
    for _ in range(2):
        auth.bind(site())
    [record] = caplog.records
    assert record.getMessage() == (
        f"notes: DevAuth does not authenticate users: any process on this machine can log in at {ORIGIN} as ada, bob"
    )


async def test_store_file_is_useless_without_secret(tmp_path):
    server = AuthServer(shared=Sqlite(tmp_path / "shared.db"))
    login = await server.login()
    tokens = await server.tokens(login)
    thief = AuthServer(shared=Sqlite(tmp_path / "shared.db"), secret="quite another secret of a server")
    with pytest.raises(InvalidTokenError):
        await thief.granted(tokens)
    assert (await thief.refreshed(tokens, login)).json()["error"] == "invalid_client"
    assert (await thief.refreshed(tokens, await thief.login())).json()["error"] == "invalid_grant"
