"""Documents of issuers and clients, fetched over HTTP within limits and from the public internet."""

from __future__ import annotations

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

from mcpkit.auth.authority.client_documents import ClientDocuments, check_client_url
from mcpkit.auth.authority.errors import OAuthError
from mcpkit.auth.authority.public_internet import PublicTransport
from mcpkit.auth.fetching import MAX_DOCUMENT, FetchError, fetch_document
from mcpkit.auth.urls import MetadataError
from tests.helpers.oauth_flow import CALLBACK, AuthServer, Login
from tests.helpers.scripted_http import Asked, Reply, scripted
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

HOST = "client.example"


class Web:
    def __init__(self, folder: Path) -> None:
        authority = CertificateAuthority(folder)
        files = authority.certificate(HOST)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*files)
        self.trusting = ssl.create_default_context(cafile=str(authority.file))
        self.document: Any = {}
        self.headers: dict[str, str] = {}
        self.status = 200
        self.asked = 0
        self.addresses: Sequence[str] = ("127.0.0.1",)
        self.seen: list[Asked] = []

    async def script(self, asked: Asked, reply: Reply) -> None:
        self.asked += 1
        self.seen.append(asked)
        body = self.document if isinstance(self.document, bytes) else json.dumps(self.document).encode()
        await reply.send(self.status, body, {"Content-Type": "application/json", **self.headers})

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        assert host == HOST
        return self.addresses

    def client(self, **more: Any) -> httpx2.AsyncClient:
        inner = httpx2.AsyncHTTPTransport(verify=self.trusting, trust_env=False)
        options = {"resolve": self.resolve, "is_allowed": lambda _: True, **more}
        return httpx2.AsyncClient(transport=PublicTransport(inner, **options), timeout=5)

    def says(self, url: str, **more: Any) -> str:
        found = f"https://{HOST}:{urlsplit(url).port}/client.json"
        self.document = {"client_id": found, "client_name": "Editor", "redirect_uris": [CALLBACK], **more}
        self.document = {name: value for name, value in self.document.items() if value is not None}
        return found


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return Web(tmp_path)


async def test_client_document_login(web):
    async with scripted(web.script, web.tls) as server:
        login = Login(web.says(server.url))
        here = AuthServer(documents=web.client)
        async with here.browser() as browser:
            page = await browser.get("/authorize", params=login.query)
        assert "Editor" in page.text
        assert HOST in page.text
        tokens = await here.tokens(login)
    assert (await here.granted(tokens)).principal.client_id == login.client_id
    assert "refresh_token" not in tokens
    assert web.asked == 1
    assert web.seen[0].headers["host"] == urlsplit(login.client_id).netloc


async def rejection(web: Web, **more: Any) -> str:
    async with scripted(web.script, web.tls) as server:
        url = web.says(server.url, **more)
        with pytest.raises(OAuthError) as caught:
            await ClientDocuments(web.client).find(url)
    assert caught.value.error == "invalid_client"
    return caught.value.description


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"client_id": "https://other.example/client.json"}, "not the URL of the document"),
        ({"client_id": None}, "not the URL of the document"),
        ({"client_name": None}, "no client_name"),
        ({"client_secret": "x"}, "secret"),
        ({"client_secret_expires_at": 0}, "secret"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "must be none"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "must be none"),
    ],
)
async def test_client_document_invalid_is_rejected(web, more, text):
    assert text in await rejection(web, **more)


@pytest.mark.parametrize("uris", [None, [], "https://x.example/", ["http://x.example/"], ["javascript:x"]])
async def test_client_document_redirect_uris_invalid_are_rejected(web, uris):
    async with scripted(web.script, web.tls) as server:
        with pytest.raises(OAuthError, match="redirect"):
            await ClientDocuments(web.client).find(web.says(server.url, redirect_uris=uris))


async def test_client_document_response_invalid_is_rejected(web):
    for body in (b"", b"[]", b"{", b'{"a":1,"a":2}', b"x" * 10_000_000):
        async with scripted(web.script, web.tls) as server:
            url = web.says(server.url)
            web.document = body
            with pytest.raises(OAuthError):
                await ClientDocuments(web.client).find(url)
    for status, headers in (
        (302, {"Location": "https://127.0.0.1/"}),
        (404, {}),
        (200, {"Content-Type": "text/html"}),
    ):
        web.status, web.headers = status, headers
        await rejection(web)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_client_document_unavailable_is_503(web, status):
    async with scripted(web.script, web.tls) as server:
        login = Login(web.says(server.url, grant_types=["authorization_code", "refresh_token"]))
        web.headers = {"Cache-Control": "no-store"}
        here = AuthServer(documents=web.client)
        tokens = await here.tokens(login)
        web.status = status
        answer = await here.refreshed(tokens, login)
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
        web.status = 200
        assert (await here.refreshed(tokens, login)).status_code == 200


async def test_client_document_cache_follows_headers(web):
    now = 0.0
    async with scripted(web.script, web.tls) as server:
        url = web.says(server.url)
        documents = ClientDocuments(web.client, lambda: now)

        async def looked_up(times: int) -> None:
            await documents.find(url)
            assert web.asked == times

        web.status = 500
        for _ in range(2):
            with pytest.raises(OAuthError):
                await documents.find(url)
        web.status, web.headers = 200, {"Cache-Control": "no-store"}
        await looked_up(3)
        await looked_up(4)
        web.headers = {"Cache-Control": "max-age=60"}
        await looked_up(5)
        now = 59.0
        await looked_up(5)
        now, web.headers = 60.0, {}
        await looked_up(6)
        now = 359.0
        await looked_up(6)
        now, web.headers = 360.0, {"Cache-Control": "max-age=999999999"}
        await looked_up(7)
        now = 360 + 24 * 3600.0 - 1
        await looked_up(7)
        now += 1
        await looked_up(8)


@each_row(
    "url",
    [
        "http://client.example/client.json",
        "https://client.example",
        "https:///client.json",
        "https://user@client.example/client.json",
        "https://client.example/client.json#x",
        "https://client.example/a/../client.json",
        "https://client.example/./client.json",
        "https://client.example/%2e%2E/client.json",
        "https://client.example\\@evil.example/x",
        "https://client.example:99999/x",
        "https://client..example/x",
        "https://.example/x",
        f"https://{'a' * 64}.example/x",
        "https://[::1/x",
        "https://client.example/a b",
        "https://client.example/ü",
        "https:client.example/x",
        "https://client.example/" + "x" * 2000,
    ],
)
async def test_client_id_url_invalid_is_rejected(url):
    with pytest.raises(OAuthError, match="client_id that is a URL"):
        check_client_url(url)
    here = AuthServer(documents=None)
    async with here.browser() as browser:
        response = await browser.get("/authorize", params=Login(url).query)
    assert response.status_code == 400
    assert "location" not in response.headers


async def test_client_document_host_is_resolved_once(web):
    looked_up: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return ("127.0.0.1",) if len(looked_up) == 1 else ("192.0.2.1",)

    async with scripted(web.script, web.tls) as server:
        url = web.says(server.url)
        await ClientDocuments(lambda: web.client(resolve=rebinding)).find(url)
    assert looked_up == [HOST]


async def test_client_document_checks_certificate(web):
    async with scripted(web.script, web.tls) as server:
        url = f"https://other.example:{urlsplit(server.url).port}/client.json"

        async def resolve(host: str, port: int) -> Sequence[str]:
            return ("127.0.0.1",)

        with pytest.raises(OAuthError, match="certificate"):
            await ClientDocuments(lambda: web.client(resolve=resolve)).find(url)
    assert web.asked == 0


@pytest.mark.limit("metadata documents of clients that `DevAuth` fetches")
async def test_client_document_limits_time_and_concurrency(web, monkeypatch):
    monkeypatch.setattr("mcpkit.auth.authority.client_documents._TIMEOUT", 0.5)
    refusals: list[str] = []

    async def never(asked: Asked, reply: Reply) -> None:
        await anyio.sleep_forever()

    async with scripted(never, web.tls) as server:
        documents = ClientDocuments(web.client)

        async def look_up(number: int) -> None:
            with pytest.raises(OAuthError) as caught:
                await documents.find(f"{web.says(server.url)}?{number}")
            assert caught.value.error == "temporarily_unavailable"
            refusals.append(caught.value.description)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(look_up, number)
    assert sum("did not respond within" in each for each in refusals) == 16
    assert sum("too many client metadata documents" in each for each in refusals) == 4


async def test_client_document_limits_concurrency_per_address(web, monkeypatch):
    slow, all_in_flight = anyio.Event(), anyio.Event()
    in_flight = 0

    async def script(asked: Asked, reply: Reply) -> None:
        nonlocal in_flight
        if "slow" in asked.target:
            in_flight += 1
            if in_flight == 4:
                all_in_flight.set()
            await slow.wait()
        await web.script(asked, reply)

    monkeypatch.setattr("mcpkit.auth.authority.client_documents._TIMEOUT", 60.0)
    async with scripted(script, web.tls) as server:
        url = web.says(server.url)
        documents = ClientDocuments(web.client)

        async def fetch(number: int) -> None:
            with pytest.raises(OAuthError, match="not the URL"):
                await documents.find(f"{url}?slow={number}", "address 192.0.2.7")

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(fetch, number)
            with anyio.fail_after(60):
                await all_in_flight.wait()
            with pytest.raises(OAuthError, match="too many client metadata documents"):
                await documents.find(url, "address 192.0.2.7")
            assert (await documents.find(url, "address 192.0.2.8")).name == "Editor"
            slow.set()
        web.document["client_id"] = f"{url}?again"
        assert await documents.find(f"{url}?again", "address 192.0.2.7")


NAME = "the metadata of the provider"


async def fetch(script: Any, **options: Any) -> Any:
    async with scripted(script) as server:
        return await fetch_document(server.url, NAME, **options)


async def fetch_error(script: Any, **options: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetch(script, **options)
    assert str(caught.value).startswith(NAME)
    return caught.value


def respond_with(body: bytes, status: int = 200, **headers: str) -> Any:
    all_headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}

    async def script(asked: Asked, reply: Reply) -> None:
        assert (asked.method, asked.headers["accept"]) == ("GET", "application/json")
        await reply.send(status, body, all_headers)

    return script


@pytest.mark.slow
@pytest.mark.limit("document of a provider")
async def test_fetch_limits_decompressed_size():
    small = gzip.compress(json.dumps({"a": "b" * 1000}).encode())
    bomb = gzip.compress(b'{"a": "' + b"b" * (64 * MAX_DOCUMENT) + b'"}')

    assert (await fetch(respond_with(small, Content_Encoding="gzip"))).members == {"a": "b" * 1000}
    assert "sent more than the maximum of 524,288 bytes" in str(
        await fetch_error(respond_with(bomb, Content_Encoding="gzip"))
    )
    assert "a Content-Encoding that was not requested" in str(
        await fetch_error(respond_with(small, Content_Encoding="br"))
    )


@each_row(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'"text"',
        b'{"issuer": "a", "issuer": "b"}',
        b'{"deep": {"twice": 1, "twice": 1}}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a":' * 100_000,
        b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"a": ' + b"9" * 10_000 + b"}",
    ],
)
async def test_fetch_invalid_json_raises(body):
    error = await fetch_error(respond_with(body))

    assert "JSON object" in str(error)
    assert not error.may_pass


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_fetch_redirect_raises(status):
    async def script(asked: Asked, reply: Reply) -> None:
        assert asked.target == "/mcp"
        await reply.send(status, b"", {"Location": "/other"})

    error = await fetch_error(script)
    assert f"redirects (HTTP {status}), and redirects are not followed" in str(error)
    async with httpx2.AsyncClient(follow_redirects=True) as client:
        assert "redirects" in str(await fetch_error(script, http_client=client))


async def test_fetch_timeout_raises():
    async def silent(asked: Asked, reply: Reply) -> None:
        await reply.gone()

    async def slow(asked: Asked, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n")
        for _ in range(100):
            await reply.raw(b" ")
            await asyncio.sleep(0.02)
        await reply.gone()

    for script in (silent, slow):
        error = await fetch_error(script, patience=0.1)
        assert "did not respond within 0.1 s" in str(error)
        assert error.may_pass


@each_row(
    "url",
    [
        "http://id.example.com/keys", "ftp://id.example.com/keys", "file:///etc/passwd",
        "https://user:secret@id.example.com/keys", "https://", "//id.example.com",
        "https://id.example.com/keys#here",
    ],
)  # fmt: skip
async def test_fetch_unsafe_url_raises(url):
    with pytest.raises(MetadataError) as caught:
        await fetch_document(url, NAME)

    assert "secret" not in str(caught.value)


async def test_fetch_checks_certificate(tmp_path):
    authority = CertificateAuthority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.certificate("id"))
    async with scripted(respond_with(b"{}"), context) as server:
        with pytest.raises(FetchError, match="its certificate is not trusted"):
            await fetch_document(server.url, NAME)
        trusting = ssl.create_default_context(cafile=str(authority.file))
        async with httpx2.AsyncClient(verify=trusting) as client:
            assert (await fetch_document(server.url, NAME, http_client=client)).members == {}
            assert not client.is_closed
