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
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from mcpkit import HttpOptions
from mcpkit.auth import AuditEvent, Jwt
from tests.helpers.browser import Profile
from tests.helpers.identity_provider import IdentityProvider, providing
from tests.helpers.serving import ROOT, NginxPorts, NginxProxy, free_ports, in_thread, serve_nginx
from tests.integration.auth.clients import TIME_OUT, User, authorization
from tests.integration.auth.servers import make_proxy, make_server, serve_provider, tool_call

METADATA = "/.well-known/oauth-protected-resource"
_WHOLE = """
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


def whole(app: str) -> str:
    return _WHOLE.format(app=app)


def documented_locations(page: str, title: str, app: str) -> str:
    """Return the configuration that a page of the documentation shows, for an app somewhere else."""
    text = (ROOT / "docs" / "how-to" / page).read_text()
    block = text.split(f'```nginx title="{title}"\n')[1].split("```")[0]
    assert block.count("http://127.0.0.1:8000") == 2
    return block.replace("http://127.0.0.1:8000", app)


def prefixed_locations(app: str) -> str:
    return documented_locations("deploy.md", "A protected server below /notes/", app)


class NginxServer(NamedTuple):
    http: httpx2.Client
    proxy: NginxProxy
    events: list[AuditEvent]

    def call(self, path: str, name: str, token: str | None = None, **headers: str) -> httpx2.Response:
        return self.http.post(path, **tool_call(name, token, **headers))


def subject_of(response: httpx2.Response) -> str:
    assert response.status_code == 200, response.text
    subject: str = response.json()["result"]["structuredContent"]["subject"]
    return subject


def document_of(response: httpx2.Response) -> str:
    assert response.status_code == 401
    return response.headers["www-authenticate"].split('resource_metadata="')[1].split('"')[0]


@contextmanager
def behind_nginx(
    folder: Path, ports: NginxPorts, app: Any, locations: Callable[[str], str], **options: Any
) -> Iterator[tuple[httpx2.Client, NginxProxy, ssl.SSLContext]]:
    """Serve an app behind nginx; gives an HTTP client, nginx, and a TLS context that trusts it."""
    with in_thread(app, **options) as url, serve_nginx(ports, folder, locations(url)) as nginx:
        trusting = ssl.create_default_context(cafile=str(nginx.authority))
        with httpx2.Client(base_url=nginx.url, verify=trusting) as http:
            yield http, nginx, trusting


PREFIXED = {"root_path": "/notes", "forwarded_allow_ips": "127.0.0.1"}


@pytest.fixture
def prefixed(identity_provider: IdentityProvider, tmp_path: Path) -> Iterator[NginxServer]:
    ports, events = free_ports(), list[AuditEvent]()
    app = make_server(Jwt(identity_provider.issuer), [], events.append).asgi(
        public_url=f"{ports.url}/notes/mcp", http=HttpOptions(readiness_path="/health")
    )
    with behind_nginx(tmp_path, ports, app, prefixed_locations, **PREFIXED) as (http, nginx, _):
        yield NginxServer(http, nginx, events)


def test_prefix_metadata_and_calls(prefixed, identity_provider):
    origin = prefixed.proxy.url
    url = f"{origin}/notes/mcp"
    document_url = document_of(prefixed.call("/notes/mcp", "whoami"))
    assert document_url.startswith(f"{origin}/")
    for each in {document_url, f"{origin}{METADATA}/notes/mcp", f"{origin}/notes{METADATA}/mcp"}:
        document = prefixed.http.get(each).raise_for_status().json()
        assert document["resource"] == url
        assert document["authorization_servers"] == [identity_provider.issuer]
    token = identity_provider.token("ada", "notes:read", url)
    assert subject_of(prefixed.call("/notes/mcp", "whoami", token)) == "ada"
    assert prefixed.call("/notes/mcp", "add_note", token).status_code == 403
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
    document_url = document_of(plain)
    assert prefixed.http.get(document_url, headers=FORGED).json() == prefixed.http.get(document_url).json()
    evil = identity_provider.token("ada", "notes:read", "https://evil.example/notes/mcp")
    assert prefixed.call("/notes/mcp", "whoami", evil, **FORGED).status_code == 401
    token = identity_provider.token("ada", "notes:read", f"{prefixed.proxy.url}/notes/mcp")
    assert subject_of(prefixed.call("/notes/mcp", "whoami", token, **FORGED)) == "ada"
    # A host that is not the server's is refused, whatever the token.
    for host in ("evil.example", "localhost.evil.example", "mcp.example.com:443"):
        assert prefixed.call("/notes/mcp", "whoami", token, host=host).status_code == 421
        assert prefixed.http.get("/notes/sse", headers={"host": host}).status_code == 421


def test_token_of_one_server_is_rejected_at_the_other(tmp_path):
    with ExitStack() as stack:
        ports, events = free_ports(), list[AuditEvent]()
        providers = {name: stack.enter_context(providing(path=f"/realms/{name}")) for name in ("a", "b")}
        apps = {
            name: make_server(Jwt(provider.issuer), [], events.append).asgi(
                public_url=f"{ports.url}/{name}/mcp"
            )
            for name, provider in providers.items()
        }
        well_known = [route for app in apps.values() for route in app.well_known()]
        site = Starlette(routes=[*well_known, *(Mount(f"/{name}", app) for name, app in apps.items())])
        http, nginx, _ = stack.enter_context(behind_nginx(tmp_path, ports, site, whole))
        web = NginxServer(http, nginx, events)
        for issued_by, audience, problem in (
            ("a", "a", "issuer"),
            ("a", "b", "issuer"),
            ("b", "a", "audience"),
        ):
            token = providers[issued_by].token("ada", "notes:read", f"{ports.url}/{audience}/mcp")
            refused = web.call("/b/mcp", "whoami", token)
            assert refused.status_code == 401, (issued_by, audience)
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
            assert problem in (events[-1].detail or "")
            assert token not in str(events)


FETCH = """
fetch({url}, {{method: {method}, headers: {headers}, body: {body}}}).then(
    async answer => [answer.status, answer.headers.get("www-authenticate"), await answer.text()],
    error => [0, null, String(error)])
"""


def fetch(url: str, method: str = "GET", headers: Any = None, json_: Any = None) -> str:
    body = None if json_ is None else json.dumps(json_)
    values = {"url": url, "method": method, "headers": headers or {}, "body": body}
    return FETCH.format(**{name: json.dumps(value) for name, value in values.items()})


@pytest.mark.parametrize(
    ("sandbox", "origins", "is_allowed"),
    [("", [], True), ("sandbox allow-scripts", [], False), ("sandbox allow-scripts", ["null"], True)],
    ids=["of this machine", "without an origin", "without an origin, which is allowed"],
)
def test_page_of_another_origin_follows_allowed_origins(
    identity_provider, page, tmp_path, sandbox, origins, is_allowed
):
    policy = {"content-security-policy": sandbox}
    site = Starlette(routes=[Route("/", lambda _: HTMLResponse("<p>a page</p>", headers=policy))])
    ports = free_ports()
    server = ports.plain_url
    app = make_server(Jwt(identity_provider.issuer), []).asgi(
        public_url=f"{server}/mcp", allowed_origins=origins
    )
    token = identity_provider.token("ada", "notes:read", f"{server}/mcp")
    with behind_nginx(tmp_path, ports, app, whole), in_thread(site) as origin:
        page.open(origin)
        status, _, document = page.evaluate(fetch(f"{server}{METADATA}/mcp"))
        assert (status, json.loads(document)["resource"]) == (200, f"{server}/mcp")  # which is public
        refused, served = (
            page.evaluate(fetch(f"{server}/mcp", "POST", call["headers"], call["json"]))
            for call in (tool_call("whoami"), tool_call("whoami", token))
        )
    if is_allowed:
        assert refused[0] == 401
        assert refused[1].startswith("Bearer resource_metadata=")  # which the page may read
        assert (served[0], '"subject":"ada"' in served[2]) == (200, True)
    else:
        assert (refused[0], served[0]) == (0, 0)
        assert "Failed to fetch" in served[2]


def proxy_prefixed(app: str) -> str:
    proxy = documented_locations("oauth-proxy.md", "An OAuth proxy below /notes/", app)
    return prefixed_locations(app) + proxy


@pytest.mark.parametrize(
    ("prefix", "issuer", "locations"), [("", "/login", whole), ("/notes", "/notes", proxy_prefixed)]
)
def test_proxy_behind_nginx_login(page, tmp_path, prefix, issuer, locations):
    user, ports = User(page), free_ports()
    with serve_provider(f"{ports.url}{issuer}/callback") as provider:
        proxy = make_proxy(provider, f"{ports.url}{prefix}/mcp", f"{ports.url}{issuer}")
        options = {"root_path": prefix, "forwarded_allow_ips": "127.0.0.1"}
        with behind_nginx(tmp_path, ports, proxy.wire, locations, **options) as (_, _, trusting):

            async def whoami() -> Any:
                auth = authorization(proxy.url, user.log_in)
                with anyio.fail_after(TIME_OUT):
                    async with (
                        httpx2.AsyncClient(auth=auth, verify=trusting, timeout=30) as http,
                        Client(streamable_http_client(proxy.url, http_client=http), cache=None) as client,
                    ):
                        return (await client.call_tool("whoami")).structured_content

            assert anyio.run(whoami) == {"subject": "bob", "scopes": ["notes:read"]}
        assert {login.answer["iss"] for login in user.logins} == {f"{ports.url}{issuer}"}
        proxy.check_legs(logins=1, issuer=issuer)
        check_cookies(page)


def check_cookies(page: Profile) -> None:
    """Check the cookies of mcpkit's that the browser received, and that it refused none."""
    responses = [each for each in page.network() if "blockedCookies" in each]
    headers = [pair for each in responses for pair in each["headers"].items()]
    set_cookie = [value for name, value in headers if name.lower() == "set-cookie"]
    cookies = [line for value in set_cookie for line in value.split("\n") if "mcpkit" in line]
    assert cookies
    for cookie in cookies:
        name, _, rest = cookie.partition("=")
        attributes = {each.strip().partition("=")[0].lower() for each in rest.split(";")[1:]}
        assert name.startswith("__Host-")
        assert {"secure", "httponly", "path", "samesite"} <= attributes
        assert "domain" not in attributes
    assert [each for each in responses if each["blockedCookies"]] == []
