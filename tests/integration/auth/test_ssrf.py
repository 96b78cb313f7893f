"""Server-side request forgery through URLs that clients name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from mcpkit import Server
from mcpkit.auth import DevAuth
from mcpkit.auth.authority import public_internet
from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.authority.errors import OAuthError
from mcpkit.auth.authority.public_internet import PublicTransport
from tests.helpers.oauth_flow import CALLBACK, Login
from tests.helpers.serving import free_ports, in_thread_at, serve_nginx

pytestmark = pytest.mark.anyio

PRIVATE = "127.0.0.1"


NAMES = {
    "internal.example": ("127.0.0.1",),
    "mapped.example": ("::ffff:127.0.0.1",),
    "both.example": ("8.8.8.8", "127.0.0.1"),
    "metadata.example": ("169.254.169.254",),
    "nat64.example": ("64:ff9b::7f00:1",),
    "tunnel.example": ("2002:7f00:1::",),
    "neighbour.example": ("10.0.0.1",),
    "unique-local.example": ("fd00::1",),
    "link-local.example": ("fe80::1",),
    "shared.example": ("100.64.0.1",),
    "any.example": ("0.0.0.0",),
}


class Canary:
    """A listener on a free port of 127.0.0.1 that counts connections and closes them."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.transport.abort()


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    canary = Canary()
    async with await asyncio.start_server(canary.accept, PRIVATE, 0) as server:
        canary.port = server.sockets[0].getsockname()[1]
        yield canary


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = Server("notes", auth=DevAuth())
    with in_thread_at(lambda url: server.asgi(public_url=f"{url}/mcp"), loop="asyncio") as url:
        yield url


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system's resolver know the names."""
    real = socket.getaddrinfo

    def resolved(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in NAMES:
            return real(host, port, *arguments, **options)
        return [found for each in NAMES[name] for found in real(each, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


def unguarded() -> httpx2.AsyncClient:
    """What a fetch would be without the guard."""
    return httpx2.AsyncClient(verify=False, trust_env=False, timeout=5)


async def send_client_id(origin: str, client_id: str) -> list[httpx2.Response]:
    """Name a client at every endpoint that looks clients up."""
    login = Login(client_id, resource=None)
    async with httpx2.AsyncClient(base_url=origin, trust_env=False, timeout=30) as attacker:
        return [
            await attacker.get("/authorize", params=login.query),
            await attacker.post("/token", data=login.form("a code")),
            await attacker.post("/revoke", data={"client_id": client_id, "token": "a token"}),
        ]


HOSTS = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0", "localhost", "LOCALHOST",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
    "internal.example", "mapped.example",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
async def test_loopback_url_in_any_spelling_is_not_requested(origin, canary, host, monkeypatch):
    url = f"https://{host}:{canary.port}/client.json"
    answers = await send_client_id(origin, url)
    assert [each.status_code for each in answers] == [400, 401, 401]
    assert canary.connections == 0
    monkeypatch.setattr(public_internet, "public_client", unguarded)
    await send_client_id(origin, url)
    assert canary.connections >= 1


class Wire(httpx2.AsyncBaseTransport):
    """Connects to the canary, whatever address it is given, and notes that: no test may ask real neighbours."""

    def __init__(self, canary: Canary) -> None:
        self.asked: list[str] = []
        self._canary = canary
        self._inner = httpx2.AsyncHTTPTransport(verify=False, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url.host)
        url = request.url.copy_with(host=PRIVATE, port=self._canary.port)
        return await self._inner.handle_async_request(httpx2.Request("GET", url))

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.parametrize("name", NAMES)
async def test_name_of_private_address_is_not_requested(name, canary):
    url = f"https://{name}/client.json"
    wire = Wire(canary)
    with pytest.raises(OAuthError, match="not on the public internet"):
        await ClientDocuments(lambda: httpx2.AsyncClient(transport=PublicTransport(wire))).find(url)
    assert (wire.asked, canary.connections) == ([], 0)
    believing = PublicTransport(wire, is_allowed=lambda _: True)
    with pytest.raises(OAuthError):
        await ClientDocuments(lambda: httpx2.AsyncClient(transport=believing)).find(url)
    assert canary.connections >= 1


async def test_response_hides_open_ports(origin, canary):
    """Else strangers could find out what runs on this machine, port by port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    responses = []
    for port in (canary.port, closed):
        answers = await send_client_id(origin, f"https://127.0.0.1:{port}/client.json")
        responses.append([(each.status_code, each.text.replace(str(port), "PORT")) for each in answers])
    assert responses[0] == responses[1]


@pytest.mark.parametrize(
    "member", ["jwks_uri", "logo_uri", "client_uri", "tos_uri", "policy_uri", "sector_identifier_uri"]
)
async def test_urls_in_registration_are_not_requested(origin, canary, member):
    url = f"http://127.0.0.1:{canary.port}/x"
    metadata = {
        "redirect_uris": [CALLBACK, f"{url}/callback"],
        "token_endpoint_auth_method": "none",
        member: url,
    }
    async with httpx2.AsyncClient(base_url=origin, trust_env=False, timeout=30) as attacker:
        registered = await attacker.post("/register", json=metadata)
        assert registered.status_code == 201
        query = Login(registered.json()["client_id"], resource=None).query
        for more in ({}, {"request_uri": url}, {"resource": url}, {"redirect_uri": f"{url}/callback"}):
            await attacker.get("/authorize", params={**query, **more})
        assert canary.connections == 0
        with pytest.raises(httpx2.HTTPError):
            await attacker.get(url)
        assert canary.connections == 1


def test_dev_auth_behind_default_nginx_is_rejected(tmp_path):
    server = Server("notes", auth=DevAuth())
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        passed_on = f"location / {{ proxy_pass {origin}; }}"
        with serve_nginx(free_ports(), tmp_path, passed_on) as proxy, httpx2.Client() as client:
            for path in ("/authorize", "/token", "/register"):
                refused = client.post(proxy.plain + path)
                assert (refused.status_code, "HTTP/1.0" in refused.text) == (403, True)
