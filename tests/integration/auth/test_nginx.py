"""A protected server and an OAuthProxy behind nginx with TLS and a prefix, and two servers on one origin."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from mcpkit import HttpOptions
from mcpkit.auth import Jwt
from tests.helpers.serving import ROOT, NginxPorts, free_ports, in_thread, serve_nginx
from tests.helpers.signed_tokens import NOW, Signer
from tests.helpers.waiting import Clock
from tests.integration.auth.clients import TIME_OUT, User, authorization
from tests.integration.auth.servers import make_proxy, make_server, serve_provider, tool_call

METADATA = "/.well-known/oauth-protected-resource"


def documented_locations(page: str, title: str) -> str:
    """Return the configuration that a page of the documentation shows."""
    text = (ROOT / "docs" / "guides" / page).read_text()
    return text.split(f'```nginx title="{title}"\n')[1].split("```")[0]


SERVER_LOCATIONS = documented_locations("deploy.md", "A protected server below /notes/")
PROXY_LOCATIONS = documented_locations("oauth-proxy-production.md", "An OAuth proxy below /notes/")


def subject_of(response: httpx2.Response) -> str:
    assert response.status_code == 200, response.text
    subject: str = response.json()["result"]["structuredContent"]["subject"]
    return subject


def document_of(response: httpx2.Response) -> str:
    assert response.status_code == 401
    return response.headers["www-authenticate"].split('resource_metadata="')[1].split('"')[0]


@contextmanager
def behind_nginx(folder: Path, ports: NginxPorts, app: Any, locations: str) -> Iterator[ssl.SSLContext]:
    """Serve an app below /notes/ behind nginx; gives a TLS context that trusts nginx."""
    with (
        in_thread(app, root_path="/notes", forwarded_allow_ips="127.0.0.1") as url,
        serve_nginx(ports, folder, locations.replace("http://127.0.0.1:8000", url)) as nginx,
    ):
        yield ssl.create_default_context(cafile=str(nginx.authority))


@pytest.fixture
def prefixed(identity_provider, tmp_path):
    """An HTTP client for a protected server behind nginx, at the URL of the prefix."""
    ports = free_ports()
    app = make_server(Jwt(identity_provider.issuer), []).asgi(
        public_url=f"{ports.url}/notes/mcp", http=HttpOptions(readiness_path="/health")
    )
    with (
        behind_nginx(tmp_path, ports, app, SERVER_LOCATIONS) as trusting,
        httpx2.Client(base_url=f"{ports.url}/notes/", verify=trusting) as http,
    ):
        yield http


def test_prefix_metadata_and_calls(prefixed, identity_provider):
    url = str(prefixed.base_url.join("mcp"))
    origin = url.removesuffix("/notes/mcp")
    document_url = document_of(prefixed.post("mcp", **tool_call("whoami")))
    assert document_url.startswith(f"{origin}/")
    for each in {document_url, f"{origin}{METADATA}/notes/mcp", f"{origin}/notes{METADATA}/mcp"}:
        document = prefixed.get(each).raise_for_status().json()
        assert document["resource"] == url
        assert document["authorization_servers"] == [identity_provider.issuer]
    token = identity_provider.token("ada", "notes:read", url)
    assert subject_of(prefixed.post("mcp", **tool_call("whoami", token))) == "ada"
    assert prefixed.post("mcp", **tool_call("add_note", token)).status_code == 403
    assert prefixed.get("health").status_code == 200


FORGED = {
    "x-forwarded-host": "evil.example", "x-forwarded-proto": "gopher", "x-forwarded-port": "1",
    "x-forwarded-prefix": "/evil", "x-original-url": "/evil", "x-forwarded-server": "evil.example",
    "forwarded": "for=203.0.113.9;host=evil.example;proto=gopher",
}  # fmt: skip


def test_forged_forwarded_headers_are_ignored(prefixed, identity_provider):
    plain = prefixed.post("mcp", **tool_call("whoami"))
    forged = prefixed.post("mcp", **tool_call("whoami", **FORGED))
    assert forged.headers["www-authenticate"] == plain.headers["www-authenticate"]
    document_url = document_of(plain)
    assert prefixed.get(document_url, headers=FORGED).json() == prefixed.get(document_url).json()
    evil = identity_provider.token("ada", "notes:read", "https://evil.example/notes/mcp")
    assert prefixed.post("mcp", **tool_call("whoami", evil, **FORGED)).status_code == 401
    token = identity_provider.token("ada", "notes:read", str(prefixed.base_url.join("mcp")))
    assert subject_of(prefixed.post("mcp", **tool_call("whoami", token, **FORGED))) == "ada"
    # A host that is not the server's is refused, whatever the token.
    for host in ("evil.example", "localhost.evil.example", "mcp.example.com:443"):
        assert prefixed.post("mcp", **tool_call("whoami", token, host=host)).status_code == 421
        assert prefixed.get("sse", headers={"host": host}).status_code == 421


def test_token_of_one_server_is_rejected_at_the_other():
    origin, signers = "https://mcp.example.com", {name: Signer("ES256") for name in ("a", "b")}
    mounts: list[Mount] = []
    for name, signer in signers.items():
        auth = Jwt(f"https://id.example.com/{name}", keys=signer.public(), clock=Clock(NOW))
        mounts.append(Mount(f"/{name}", make_server(auth, []).asgi(public_url=f"{origin}/{name}/mcp")))
    http = TestClient(Starlette(routes=mounts), origin)
    for issued_by, audience, status in (("a", "a", 401), ("a", "b", 401), ("b", "a", 401), ("b", "b", 200)):
        issuer, url = f"https://id.example.com/{issued_by}", f"{origin}/{audience}/mcp"
        token = signers[issued_by].token(iss=issuer, aud=url)
        response = http.post("/b/mcp", **tool_call("whoami", token))
        assert response.status_code == status, (issued_by, audience)
        assert status == 200 or 'error="invalid_token"' in response.headers["www-authenticate"]


def test_proxy_behind_nginx_login(page, tmp_path):
    user, ports = User(page), free_ports()
    issuer = f"{ports.url}/notes"
    with serve_provider(f"{issuer}/callback") as provider:
        proxy = make_proxy(provider, f"{issuer}/mcp", issuer)
        with behind_nginx(tmp_path, ports, proxy.wire, SERVER_LOCATIONS + PROXY_LOCATIONS) as trusting:

            async def whoami() -> Any:
                auth = authorization(proxy.url, user.log_in)
                with anyio.fail_after(TIME_OUT):
                    async with (
                        httpx2.AsyncClient(auth=auth, verify=trusting, timeout=30) as http,
                        Client(streamable_http_client(proxy.url, http_client=http), cache=None) as client,
                    ):
                        return (await client.call_tool("whoami")).structured_content

            assert anyio.run(whoami) == {"subject": "bob", "scopes": ["notes:read"]}
        assert {login.answer["iss"] for login in user.logins} == {issuer}
    responses = [each for each in page.network() if "blockedCookies" in each]
    assert "__Host-mcpkit-" in str([each["headers"] for each in responses])
    assert [each for each in responses if each["blockedCookies"]] == []
