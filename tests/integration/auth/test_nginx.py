"""Protected servers and an OAuthProxy behind nginx with TLS and a prefix, and two servers on one origin."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route

from mcpkit import Context, HttpOptions, Scope, Server
from mcpkit.auth import AuditEvent, Jwt, OAuthProxy
from tests.helpers.browser import Browser, Profile
from tests.helpers.identity_provider import IdentityProvider, providing
from tests.helpers.serving import NginxProxy, free_ports, in_thread, serve_nginx
from tests.integration.auth.clients import (
    CLIENT_2,
    TIME_OUT,
    TokenStorage,
    User,
    authorization,
    typescript_journey,
)
from tests.integration.auth.servers import (
    Exchange,
    ProtectedServer,
    ProxyServer,
    Recorder,
    Wire,
    make_proxy_server,
    serve_provider,
    upstream_of,
)

ROOT = "/.well-known/oauth-protected-resource"


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "deploy.md"


def prefixed_locations(app: str) -> str:
    block = PAGE.read_text().split('```nginx title="A protected server below /notes/"\n')[1].split("```")[0]
    assert block.count("http://127.0.0.1:8000") == 2
    return block.replace("http://127.0.0.1:8000", app)


WHOLE = """
location / {{
    proxy_pass {app};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_buffering off;
}}
"""


def make_server(issuer: str, events: list[AuditEvent]) -> Server:
    server = Server(
        "notes",
        auth=Jwt(issuer),
        scopes={
            "notes:read": Scope("Read notes", default=True),
            "notes:write": Scope("Change notes", implies=["notes:read"]),
        },
    )
    server.on_audit(events.append)

    @server.tool(scopes="notes:read")
    async def whoami(ctx: Context) -> str:
        """Say who asks."""
        return str(ctx.principal.subject)

    @server.tool(scopes="notes:write")
    async def add(ctx: Context) -> str:
        """Add notes, and say how far that is."""
        for step in range(3):
            await ctx.report_progress(step, 3)
        return "added"

    return server


class NginxServer(NamedTuple):
    http: httpx2.Client
    proxy: NginxProxy
    events: list[AuditEvent]

    def call(self, path: str, name: str, token: str | None = None, **headers: str) -> httpx2.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 1,
        }
        sent = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": name,
            **headers,
        }
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        params = {"name": name, "arguments": {}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self.http.post(path, json=message, headers=sent)


def text(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    said: str = answer.json()["result"]["content"][0]["text"]
    return said


def document_of(answer: httpx2.Response) -> str:
    assert answer.status_code == 401
    return answer.headers["www-authenticate"].split('resource_metadata="')[1].split('"')[0]


@pytest.fixture
def prefixed(identity_provider: IdentityProvider, tmp_path: Path) -> Iterator[NginxServer]:
    ports, events = free_ports(), list[AuditEvent]()
    app = make_server(identity_provider.issuer, events).asgi(
        public_url=f"{ports.url}/notes/mcp", http=HttpOptions(readiness_path="/health")
    )
    with (
        in_thread(app, root_path="/notes", forwarded_allow_ips="127.0.0.1") as url,
        serve_nginx(ports, tmp_path, prefixed_locations(url)) as proxy,
        httpx2.Client(base_url=proxy.url, verify=trusting(proxy)) as http,
    ):
        yield NginxServer(http, proxy, events)


def trusting(proxy: NginxProxy) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(proxy.authority))


def test_prefix_metadata_and_calls(prefixed, identity_provider):
    url = f"{prefixed.proxy.url}/notes/mcp"
    where = document_of(prefixed.call("/notes/mcp", "whoami"))
    assert where.startswith(f"{prefixed.proxy.url}/")
    places = {where, f"{prefixed.proxy.url}{ROOT}/notes/mcp", f"{prefixed.proxy.url}/notes{ROOT}/mcp"}
    for place in places:
        document = prefixed.http.get(place).raise_for_status().json()
        assert document["resource"] == url
        assert document["authorization_servers"] == [identity_provider.issuer]
    token = identity_provider.token("ada", "notes:read", url)
    assert text(prefixed.call("/notes/mcp", "whoami", token)) == "ada"
    assert prefixed.call("/notes/mcp", "add", token).status_code == 403
    assert prefixed.http.get("/notes/health").status_code == 200


FORGED = {
    "x-forwarded-host": "evil.example",
    "x-forwarded-proto": "gopher",
    "x-forwarded-port": "1",
    "x-forwarded-prefix": "/evil",
    "x-original-url": "/evil",
    "x-forwarded-server": "evil.example",
    "forwarded": "for=203.0.113.9;host=evil.example;proto=gopher",
}


def test_forged_forwarded_headers_are_ignored(prefixed, identity_provider):
    plain = prefixed.call("/notes/mcp", "whoami")
    forged = prefixed.call("/notes/mcp", "whoami", **FORGED)
    assert forged.headers["www-authenticate"] == plain.headers["www-authenticate"]
    where = document_of(plain)
    assert prefixed.http.get(where, headers=FORGED).json() == prefixed.http.get(where).json()
    evil = identity_provider.token("ada", "notes:read", "https://evil.example/notes/mcp")
    assert prefixed.call("/notes/mcp", "whoami", evil, **FORGED).status_code == 401
    token = identity_provider.token("ada", "notes:read", f"{prefixed.proxy.url}/notes/mcp")
    assert text(prefixed.call("/notes/mcp", "whoami", token, **FORGED)) == "ada"


def test_foreign_host_is_rejected_before_token(prefixed, identity_provider):
    token = identity_provider.token("ada", "notes:read", f"{prefixed.proxy.url}/notes/mcp")
    for host in ("evil.example", "localhost.evil.example", "mcp.example.com:443"):
        assert prefixed.call("/notes/mcp", "whoami", token, host=host).status_code == 421
        assert prefixed.http.get("/notes/sse", headers={"host": host}).status_code == 421


class TwoServers(NamedTuple):
    web: NginxServer
    providers: dict[str, IdentityProvider]

    def token(self, issued_by: str, for_: str, scope: str = "notes:read") -> str:
        url = f"{self.web.proxy.url}/{for_}/mcp"
        return self.providers[issued_by].token("ada", scope, url)


@pytest.fixture
def two_servers(tmp_path: Path) -> Iterator[TwoServers]:
    with ExitStack() as stack:
        ports, events = free_ports(), list[AuditEvent]()
        providers = {name: stack.enter_context(providing(path=f"/realms/{name}")) for name in ("a", "b")}
        apps = {
            name: make_server(provider.issuer, events).asgi(public_url=f"{ports.url}/{name}/mcp")
            for name, provider in providers.items()
        }
        well_known = [route for app in apps.values() for route in app.well_known()]
        site = Starlette(routes=[*well_known, *(Mount(f"/{name}", app) for name, app in apps.items())])
        url = stack.enter_context(in_thread(site))
        proxy = stack.enter_context(serve_nginx(ports, tmp_path, WHOLE.format(app=url)))
        http = stack.enter_context(httpx2.Client(base_url=proxy.url, verify=trusting(proxy)))
        yield TwoServers(NginxServer(http, proxy, events), providers)


@pytest.mark.parametrize(
    ("issued_by", "for_", "why"),
    [("a", "a", "issuer"), ("a", "b", "issuer"), ("b", "a", "audience")],
    ids=["a token of the other server", "another issuer's", "for the other server"],
)
def test_token_of_one_server_is_rejected_at_the_other(two_servers, issued_by, for_, why):
    token = two_servers.token(issued_by, for_)
    refused = two_servers.web.call("/b/mcp", "whoami", token)
    assert refused.status_code == 401
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    assert why in (two_servers.web.events[-1].detail or "")
    assert token not in str(two_servers.web.events)


FETCH = """
fetch({url}, {{method: {method}, headers: {headers}, body: {body}}}).then(
    async answer => [answer.status, answer.headers.get("www-authenticate"), await answer.text()],
    error => [0, null, String(error)])
"""


def fetch(url: str, method: str = "GET", headers: dict[str, str] | None = None, body: Any = None) -> str:
    given = [url, method, headers or {}, None if body is None else json.dumps(body)]
    written = dict(zip(("url", "method", "headers", "body"), map(json.dumps, given), strict=True))
    return FETCH.format(**written)


@pytest.mark.parametrize(
    ("sandbox", "origins", "is_allowed"),
    [("", [], True), ("sandbox allow-scripts", [], False), ("sandbox allow-scripts", ["null"], True)],
    ids=["of this machine", "without an origin", "without an origin, which is allowed"],
)
def test_page_of_another_origin_follows_allowed_origins(
    identity_provider, browser, tmp_path, sandbox, origins, is_allowed
):
    def show(request: Request) -> Response:
        return HTMLResponse("<p>a page</p>", headers={"content-security-policy": sandbox})

    ports = free_ports()
    app = make_server(identity_provider.issuer, []).asgi(
        public_url=f"{ports.plain_url}/mcp", allowed_origins=origins
    )
    with (
        in_thread(app) as url,
        in_thread(Starlette(routes=[Route("/", show)])) as page,
        serve_nginx(ports, tmp_path, WHOLE.format(app=url)) as proxy,
    ):
        check_from_page(identity_provider, browser, page, proxy.plain, is_allowed)


def check_from_page(
    identity_provider: IdentityProvider, browser: Browser, origin: str, server: str, is_allowed: bool
) -> None:
    token = identity_provider.token("ada", "notes:read", f"{server}/mcp")
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "whoami",
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "whoami", "arguments": {}, "_meta": meta}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with browser.profile() as page:
        page.open(origin)
        status, _, document = page.evaluate(fetch(f"{server}{ROOT}/mcp"))
        assert (status, json.loads(document)["resource"]) == (200, f"{server}/mcp")  # which is public
        refused = page.evaluate(fetch(f"{server}/mcp", "POST", headers, call))
        authorized = {**headers, "authorization": f"Bearer {token}"}
        served = page.evaluate(fetch(f"{server}/mcp", "POST", authorized, call))
    if is_allowed:
        assert refused[0] == 401
        assert refused[1].startswith("Bearer resource_metadata=")  # which the page may read
        assert (served[0], json.loads(served[2])["result"]["content"][0]["text"]) == (200, "ada")
    else:
        assert (refused[0], served[0]) == (0, 0)
        assert "Failed to fetch" in served[2]


PROXY_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "oauth-proxy.md"


def of_the_proxy(app: str, issuer: str) -> str:
    block = PROXY_PAGE.read_text().split('```nginx title="An OAuth proxy below /notes/"\n')[1].split("```")[0]
    assert (block.count("http://127.0.0.1:8000"), block.count("/notes")) == (2, 2)
    return block.replace("http://127.0.0.1:8000", app).replace("/notes", issuer)


def whole(app: str, issuer: str) -> str:
    return WHOLE.format(app=app)


def proxy_prefixed(app: str, issuer: str) -> str:
    return prefixed_locations(app) + of_the_proxy(app, issuer)


WAYS = [("", "/login", whole), ("/notes", "/notes", proxy_prefixed)]


@contextmanager
def behind_nginx(
    folder: Path, prefix: str = "", issuer: str = "", locations: Callable[[str, str], str] = whole
) -> Iterator[tuple[ProxyServer, NginxProxy]]:
    ports = free_ports()
    exchanges: list[Exchange] = []
    notes: list[str] = []
    with serve_provider(f"{ports.url}{issuer}/callback") as provider:
        server, events = make_proxy_server(
            OAuthProxy(upstream_of(provider), issuer=f"{ports.url}{issuer}"), notes
        )
        url = f"{ports.url}{prefix}/mcp"
        wire = Wire(Recorder(server.asgi(public_url=url), exchanges))
        with (
            in_thread(wire, root_path=prefix, forwarded_allow_ips="127.0.0.1") as app,
            serve_nginx(ports, folder, locations(app, issuer)) as nginx,
        ):
            yield ProxyServer(ProtectedServer(url, exchanges, notes), server, provider, wire, events), nginx


@pytest.mark.parametrize(("prefix", "issuer", "locations"), WAYS)
def test_proxy_behind_nginx_login(page, tmp_path, monkeypatch, prefix, issuer, locations):
    user = User(page)
    with behind_nginx(tmp_path, prefix, issuer, locations) as (proxy, nginx):

        async def whoami() -> Any:
            auth = authorization(proxy.url, TokenStorage(), user.log_in)
            trusting = ssl.create_default_context(cafile=str(nginx.authority))
            with anyio.fail_after(TIME_OUT):
                async with (
                    httpx2.AsyncClient(auth=auth, verify=trusting, timeout=30) as http,
                    Client(streamable_http_client(proxy.url, http_client=http), cache=None) as client,
                ):
                    return (await client.call_tool("whoami")).structured_content

        assert anyio.run(whoami) == {"subject": "bob", "scopes": ["notes:read"]}
        monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(nginx.authority))
        result = typescript_journey(CLIENT_2, proxy.url, ("auto",), user.log_in)
        assert result["seen"]["added"] == "added"
        assert {login.answer["iss"] for login in user.logins} == {f"{nginx.url}{issuer}"}
        proxy.check_legs(logins=3, issuer=issuer)
        check_cookies(page)


def check_cookies(page: Profile) -> None:
    given = [each for each in page.network() if "blockedCookies" in each]
    cookies = [
        line
        for each in given
        for name, value in each["headers"].items()
        if name.lower() == "set-cookie"
        for line in value.split("\n")
        if "mcpkit" in line
    ]
    assert cookies
    for cookie in cookies:
        name, _, rest = cookie.partition("=")
        attributes = {each.strip().partition("=")[0].lower() for each in rest.split(";")[1:]}
        assert name.startswith("__Host-")
        assert {"secure", "httponly", "path", "samesite"} <= attributes
        assert "domain" not in attributes
    assert [each for each in given if each["blockedCookies"]] == []
