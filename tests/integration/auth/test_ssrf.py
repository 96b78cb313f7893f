"""Server-side request forgery through URLs that clients name."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import httpx2
import pytest

from mcpkit import Server
from mcpkit.auth import DevAuth, ssrf_guard
from mcpkit.auth.authorization_server.oauth_clients import ClientDocuments
from mcpkit.auth.authorization_server.oauth_requests import OAuthError
from mcpkit.auth.ssrf_guard import PublicTransport, is_public, resolve_host
from tests.helpers.oauth_flow import CALLBACK, Login
from tests.helpers.serving import free_ports, in_thread_at, serve_nginx
from tests.helpers.tables import each_row

NAMES = {
    "internal.example": ("127.0.0.1",), "mapped.example": ("::ffff:127.0.0.1",),
    "both.example": ("8.8.8.8", "127.0.0.1"), "metadata.example": ("169.254.169.254",),
    "nat64.example": ("64:ff9b::7f00:1",), "tunnel.example": ("2002:7f00:1::",),
    "neighbour.example": ("10.0.0.1",), "unique-local.example": ("fd00::1",),
    "link-local.example": ("fe80::1",), "shared.example": ("100.64.0.1",), "any.example": ("0.0.0.0",),
}  # fmt: skip


class Canary(httpx2.AsyncBaseTransport):
    """A listener on a free port of 127.0.0.1 that counts connections, and a transport that leads there alone."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.transport.abort()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with httpx2.AsyncHTTPTransport(verify=False, trust_env=False) as transport:
            url = request.url.copy_with(host="127.0.0.1", port=self.port)
            return await transport.handle_async_request(httpx2.Request("GET", url))


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    canary = Canary()
    async with await asyncio.start_server(canary.accept, "127.0.0.1", 0) as server:
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
        addresses = NAMES.get(name, (host,))
        return [found for each in addresses for found in real(each, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


def attacker_at(origin: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=origin, trust_env=False, timeout=30)


async def send_client_id(origin: str, client_id: str) -> list[httpx2.Response]:
    """Name a client at every endpoint that looks clients up."""
    login = Login(client_id, resource=None)
    async with attacker_at(origin) as attacker:
        return [
            await attacker.get("/authorize", params=login.query),
            await attacker.post("/token", data=login.form("a code")),
            await attacker.post("/revoke", data={"client_id": client_id, "token": "a token"}),
        ]


@pytest.mark.parametrize("host", [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0", "localhost", "LOCALHOST",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
    "internal.example", "mapped.example",
])  # fmt: skip
async def test_loopback_url_in_any_spelling_is_not_requested(origin, canary, host, monkeypatch):
    url = f"https://{host}:{canary.port}/client.json"
    responses = await send_client_id(origin, url)
    assert [each.status_code for each in responses] == [400, 401, 401]
    assert canary.connections == 0

    def unguarded() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(verify=False, trust_env=False, timeout=5)

    monkeypatch.setattr(ssrf_guard, "public_client", unguarded)
    await send_client_id(origin, url)
    assert canary.connections >= 1


@each_row("name", NAMES)
async def test_name_of_private_address_is_not_requested(name, canary):
    async def find(**options: Any) -> str:
        transport = PublicTransport(canary, **options)
        with pytest.raises(OAuthError) as caught:
            await ClientDocuments(lambda: httpx2.AsyncClient(transport=transport)).find(
                f"https://{name}/client.json"
            )
        return caught.value.description

    before = canary.connections
    assert "not on the public internet" in await find()
    assert canary.connections == before
    await find(is_allowed=lambda _: True)
    assert canary.connections > before


async def test_unknown_and_private_names_have_one_error():
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    async def private(host: str, port: int) -> Sequence[str]:
        return ("10.0.0.1",)

    errors: set[str] = set()
    for resolve in (unknown, private):
        client = httpx2.AsyncClient(transport=PublicTransport(resolve=resolve))
        with pytest.raises(OAuthError) as caught:
            await ClientDocuments(lambda client=client: client).find("https://db.internal/x")
        errors.add(str(caught.value))
    assert len(errors) == 1


@each_row("member", ["jwks_uri", "logo_uri", "client_uri", "tos_uri", "policy_uri", "sector_identifier_uri"])
async def test_urls_in_registration_are_not_requested(origin, canary, member):
    url = f"http://127.0.0.1:{canary.port}/x"
    uris, before = [CALLBACK, f"{url}/callback"], canary.connections
    async with attacker_at(origin) as attacker:
        registered = await attacker.post(
            "/register", json={"redirect_uris": uris, "token_endpoint_auth_method": "none", member: url}
        )
        assert registered.status_code == 201
        query = Login(registered.json()["client_id"], resource=None).query
        for more in ({}, {"request_uri": url}, {"resource": url}, {"redirect_uri": f"{url}/callback"}):
            await attacker.get("/authorize", params={**query, **more})
        assert canary.connections == before
        with pytest.raises(httpx2.HTTPError):
            await attacker.get(url)
        assert canary.connections == before + 1


def test_dev_auth_behind_default_nginx_is_rejected(origin, tmp_path):
    passed_on = f"location / {{ proxy_pass {origin}; }}"
    with serve_nginx(free_ports(), tmp_path, passed_on) as proxy, httpx2.Client() as client:
        for path in ("/authorize", "/token", "/register"):
            refused = client.post(proxy.plain + path)
            assert (refused.status_code, "HTTP/1.0" in refused.text) == (403, True)


@each_row(
    ("address", "expected"),
    [(address, True) for address in ("8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::8.8.8.8")]
    + [(address, False) for address in (
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
        "255.255.255.255", "::1", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "fe80::1",
        "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1", "2001::1", "2001:20::1",
        "3fff::1", "5f00::1", "2002:7f00:1::", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8", "100::1", "2001:10::1", "2001:0:7f00:1::", "::7f00:1", "localhost", "",
    )],
)  # fmt: skip
def test_is_public_is_false_for_special_addresses(address, expected):
    assert is_public(address) is expected


@pytest.mark.limit("names of clients' documents that are looked up")
async def test_lookups_without_answer_are_bounded(monkeypatch):
    answered = threading.Event()
    real = socket.getaddrinfo

    def silent(host: str, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".silent.example"):
            answered.wait(60)
        return real("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    loop = asyncio.get_running_loop()
    waiting = [loop.create_task(resolve_host(f"{each}.silent.example", 443)) for each in range(128)]
    try:
        await asyncio.sleep(0)  # so that each has begun
        with pytest.raises(OSError, match="too many DNS lookups"):
            await resolve_host("client.example", 443)
        assert await loop.getaddrinfo("localhost", 443)
    finally:
        answered.set()
    assert await asyncio.gather(*waiting) == [("127.0.0.1",)] * 128
    assert await resolve_host("client.example", 443) == ("127.0.0.1",)
