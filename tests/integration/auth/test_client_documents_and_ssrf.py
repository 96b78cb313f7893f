"""Documents of issuers and clients, fetched over HTTP within limits."""

import asyncio
import gzip
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from mcpkit import Server
from mcpkit.auth import DevAuth, ssrf_guard
from mcpkit.auth.authorization_server.oauth_clients import ClientDocuments, check_client_url
from mcpkit.auth.authorization_server.oauth_requests import OAuthError
from mcpkit.auth.oauth_http_client import MAX_DOCUMENT, FetchError, fetch_document
from mcpkit.auth.ssrf_guard import PublicTransport, is_public, resolve_host
from tests.helpers.oauth_flow import CALLBACK, AuthServer, Login
from tests.helpers.scripted_http import HttpRequest, Reply, scripted
from tests.helpers.serving import free_ports, in_thread_at, serve_nginx
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.tables import each_row
from tests.helpers.waiting import until

HOST = "client.example"
JSON = {"Content-Type": "application/json"}


class Web:
    """Serves the metadata document of a client by TLS, as `https://client.example`."""

    def __init__(self, folder: Path) -> None:
        authority = CertificateAuthority(folder)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*authority.certificate(HOST))
        self.trusting = ssl.create_default_context(cafile=str(authority.file))
        self.document: Any = {}
        self.headers: dict[str, str] = {}
        self.status = 200
        self.seen: list[HttpRequest] = []
        self.names: list[str] = []

    async def script(self, request: HttpRequest, reply: Reply) -> None:
        self.seen.append(request)
        body = self.document if isinstance(self.document, bytes) else json.dumps(self.document).encode()
        await reply.send(self.status, body, {**JSON, **self.headers})

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.names.append(host)
        return ("127.0.0.1",) if len(self.names) == 1 else ("192.0.2.1",)

    def client(self, resolve: Any = None) -> httpx2.AsyncClient:
        async def loopback(host: str, port: int) -> Sequence[str]:
            return ("127.0.0.1",)

        inner = httpx2.AsyncHTTPTransport(verify=self.trusting, trust_env=False)
        transport = PublicTransport(inner, resolve=resolve or loopback, is_allowed=lambda _: True)
        return httpx2.AsyncClient(transport=transport, timeout=5)

    def publish(self, url: str, **changes: Any) -> str:
        """Serve a document, and return its URL."""
        found = f"https://{HOST}:{urlsplit(url).port}/client.json"
        document = {"client_id": found, "client_name": "Editor", "redirect_uris": [CALLBACK], **changes}
        self.document = {name: value for name, value in document.items() if value is not None}
        return found

    async def find_error(self, script: Any = None, **changes: Any) -> str:
        async with scripted(script or self.script, self.tls) as server:
            url = self.publish(server.url, **changes)
            with pytest.raises(OAuthError) as caught:
                await ClientDocuments(self.client).find(url)
        return f"{caught.value.error}: {caught.value.description}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture
def web(certificates: Path) -> Web:
    return Web(certificates)


async def test_client_document_login(web):
    async with scripted(web.script, web.tls) as server:
        login = Login(web.publish(server.url))
        here = AuthServer(documents=web.client)
        async with here.browser() as browser:
            page = await browser.get("/authorize", params=login.query)
        assert "Editor" in page.text
        assert HOST in page.text
        tokens = await here.tokens(login)
    assert (await here.granted(tokens)).principal.client_id == login.client_id
    assert "refresh_token" not in tokens
    [request] = web.seen
    assert request.headers["host"] == urlsplit(login.client_id).netloc


@each_row(("changes", "problem"), [
    *(({"client_id": url}, "not the URL of the document") for url in ("https://x.example/x.json", None)),
    ({"client_name": None}, "no client_name"),
    ({"client_secret": "x"}, "secret"),
    ({"client_secret_expires_at": 0}, "secret"),
    *(({"token_endpoint_auth_method": method}, "must be none") for method in (
        "client_secret_post", "private_key_jwt",
    )),
    *(({"redirect_uris": uris}, "redirect") for uris in (
        None, [], "https://x.example/", ["http://x.example/"], ["javascript:x"],
    )),
])  # fmt: skip
async def test_client_document_invalid_is_rejected(web, changes, problem):
    assert problem in await web.find_error(**changes)


@each_row(("status", "headers", "body"), [
    *((200, {}, body) for body in (b"", b"[]", b"{", b'{"a":1,"a":2}', b"x" * 10_000_000)),
    (302, {"Location": "https://127.0.0.1/"}, None),
    (404, {}, None),
    (200, {"Content-Type": "text/html"}, None),
])  # fmt: skip
async def test_client_document_response_invalid_is_rejected(web, status, headers, body):
    async def script(request: HttpRequest, reply: Reply) -> None:
        await reply.send(status, json.dumps(web.document).encode() if body is None else body, JSON | headers)

    assert (await web.find_error(script)).startswith("invalid_client: ")


async def test_client_document_unavailable_is_503(web):
    async with scripted(web.script, web.tls) as server:
        login = Login(web.publish(server.url, grant_types=["authorization_code", "refresh_token"]))
        web.headers = {"Cache-Control": "no-store"}
        here = AuthServer(documents=web.client)
        tokens = await here.tokens(login)
        for web.status in (429, 500, 503):
            response = await here.refreshed(tokens, login)
            assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
        web.status = 200
        assert (await here.refreshed(tokens, login)).status_code == 200


async def test_client_document_cache_follows_headers(web):
    now = 0.0
    async with scripted(web.script, web.tls) as server:
        url = web.publish(server.url)
        documents = ClientDocuments(web.client, lambda: now)
        web.status = 500
        for _ in range(2):
            with pytest.raises(OAuthError):
                await documents.find(url)
        web.status = 200
        for now, cache_control, requests in (
            (0.0, "no-store", 3),
            (0.0, "no-store", 4),
            (0.0, "max-age=60", 5),
            (59.0, "max-age=60", 5),
            (60.0, "", 6),
            (359.0, "", 6),
            (360.0, "max-age=999999999", 7),
            (360 + 24 * 3600.0 - 1, "", 7),
            (360 + 24 * 3600.0, "", 8),
        ):
            web.headers = {"Cache-Control": cache_control} if cache_control else {}
            await documents.find(url)
            assert len(web.seen) == requests, (now, cache_control)


@each_row("url", [
    "http://client.example/client.json", "https://client.example", "https:///client.json",
    "https://user@client.example/client.json", "https://client.example/client.json#x",
    "https://client.example/a/../client.json", "https://client.example/./client.json",
    "https://client.example/%2e%2E/client.json", "https://client.example\\@evil.example/x",
    "https://client.example:99999/x", "https://client..example/x", "https://.example/x",
    f"https://{'a' * 64}.example/x", "https://[::1/x", "https://client.example/a b",
    "https://client.example/ü", "https:client.example/x", "https://client.example/" + "x" * 2000,
])  # fmt: skip
async def test_client_id_url_invalid_is_rejected(url):
    with pytest.raises(OAuthError, match="client_id that is a URL"):
        check_client_url(url)
    async with AuthServer(documents=None).browser() as browser:
        response = await browser.get("/authorize", params=Login(url).query)
    assert response.status_code == 400
    assert "location" not in response.headers


async def test_client_document_host_is_resolved_once(web):
    async with scripted(web.script, web.tls) as server:
        await ClientDocuments(lambda: web.client(web.resolve)).find(web.publish(server.url))
    assert web.names == [HOST]


async def test_client_document_checks_certificate(web):
    async with scripted(web.script, web.tls) as server:
        url = f"https://other.example:{urlsplit(server.url).port}/client.json"
        with pytest.raises(OAuthError, match="certificate"):
            await ClientDocuments(web.client).find(url)
    assert web.seen == []


@pytest.mark.limit("metadata documents of clients that `DevAuth` fetches")
async def test_client_document_limits_time_and_concurrency(web, monkeypatch):
    monkeypatch.setattr("mcpkit.auth.authorization_server.oauth_clients._TIMEOUT", 0.5)
    errors: list[str] = []

    async def never(request: HttpRequest, reply: Reply) -> None:
        await anyio.sleep_forever()

    async with scripted(never, web.tls) as server:
        documents = ClientDocuments(web.client)

        async def find(number: int) -> None:
            with pytest.raises(OAuthError) as caught:
                await documents.find(f"{web.publish(server.url)}?{number}")
            assert caught.value.error == "temporarily_unavailable"
            errors.append(caught.value.description)

        await asyncio.gather(*map(find, range(20)))
    assert sum("did not respond within" in each for each in errors) == 16
    assert sum("too many client metadata documents" in each for each in errors) == 4


async def test_client_document_limits_concurrency_per_address(web, monkeypatch):
    go_on = anyio.Event()

    async def script(request: HttpRequest, reply: Reply) -> None:
        web.seen.append(request)
        if "slow" in request.target:
            await go_on.wait()
        await web.script(request, reply)

    async def find_slow(number: int) -> None:
        with pytest.raises(OAuthError, match="not the URL"):
            await documents.find(f"{url}?slow={number}", "address 192.0.2.7")

    monkeypatch.setattr("mcpkit.auth.authorization_server.oauth_clients._TIMEOUT", 60.0)
    async with scripted(script, web.tls) as server, anyio.create_task_group() as tasks:
        url, documents = web.publish(server.url), ClientDocuments(web.client)
        for number in range(4):
            tasks.start_soon(find_slow, number)
        await until(lambda: len(web.seen) == 4)
        with pytest.raises(OAuthError, match="too many client metadata documents"):
            await documents.find(url, "address 192.0.2.7")
        assert (await documents.find(url, "address 192.0.2.8")).name == "Editor"
        go_on.set()


async def test_client_document_concurrent_requests_fetch_once(web):
    async with scripted(web.script, web.tls) as server:
        url, documents = web.publish(server.url), ClientDocuments(web.client)
        await asyncio.gather(*(documents.find(url, "address 192.0.2.7") for _ in range(40)))
    assert len(web.seen) == 1


NAME = "the metadata of the provider"


async def fetch(script: Any, **options: Any) -> Any:
    async with scripted(script) as server:
        return await fetch_document(server.url, NAME, **options)


async def fetch_error(script: Any, **options: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetch(script, **options)
    assert str(caught.value).startswith(NAME)
    return caught.value


def respond_with(body: bytes, **headers: str) -> Any:
    async def script(request: HttpRequest, reply: Reply) -> None:
        assert (request.method, request.headers["accept"]) == ("GET", "application/json")
        await reply.send(200, body, JSON | {name.replace("_", "-"): value for name, value in headers.items()})

    return script


@pytest.mark.slow
@pytest.mark.limit("document of a provider")
async def test_fetch_limits_decompressed_size():
    small = gzip.compress(json.dumps({"a": "b" * 1000}).encode())
    bomb = gzip.compress(b'{"a": "' + b"b" * (64 * MAX_DOCUMENT) + b'"}')
    assert (await fetch(respond_with(small, Content_Encoding="gzip"))).members == {"a": "b" * 1000}
    too_long = await fetch_error(respond_with(bomb, Content_Encoding="gzip"))
    assert "sent more than the maximum of 524,288 bytes" in str(too_long)
    unknown = await fetch_error(respond_with(small, Content_Encoding="br"))
    assert "a Content-Encoding that was not requested" in str(unknown)


@each_row("body", [
    b"", b"<html>", b"[]", b'"text"', b'{"issuer": "a", "issuer": "b"}',
    b'{"deep": {"twice": 1, "twice": 1}}', b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\xff"}',
    b'{"a": "\\ud800"}', b'{"a":' * 100_000, b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    b'{"a": ' + b"9" * 10_000 + b"}",
])  # fmt: skip
async def test_fetch_invalid_json_raises(body):
    error = await fetch_error(respond_with(body))
    assert "JSON object" in str(error)
    assert not error.may_pass


async def test_fetch_timeout_raises():
    async def silent(request: HttpRequest, reply: Reply) -> None:
        await reply.gone()

    async def slow(request: HttpRequest, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n")
        for _ in range(100):
            await reply.raw(b" ")
            await asyncio.sleep(0.02)
        await reply.gone()

    for script in (silent, slow):
        error = await fetch_error(script, time_limit=0.1)
        assert "did not respond within 0.1 s" in str(error)
        assert error.may_pass


# Server-side request forgery through URLs that clients name


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
