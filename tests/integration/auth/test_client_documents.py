"""Documents of issuers and clients, fetched over HTTP within limits."""

import asyncio
import gzip
import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from mcpkit.auth.authorization_server.oauth_clients import ClientDocuments, check_client_url
from mcpkit.auth.authorization_server.oauth_requests import OAuthError
from mcpkit.auth.http_client import MAX_DOCUMENT, FetchError, fetch_document
from mcpkit.auth.ssrf_guard import PublicTransport
from tests.helpers.oauth_flow import CALLBACK, AuthServer, Login
from tests.helpers.scripted_http import HttpRequest, Reply, scripted
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
