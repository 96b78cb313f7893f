"""The attacker's own web server, which a document is fetched from: redirects, names bound anew, floods, slow bytes."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.authority.errors import OAuthError
from mcpkit.auth.authority.public_internet import PublicTransport
from tests.helpers.authority_site import CALLBACK
from tests.helpers.canary import Canary
from tests.helpers.canary import listening as canary_listening
from tests.helpers.certificates import Authority
from tests.helpers.scripted_http import Asked, Reply, scripted

pytestmark = pytest.mark.anyio

HOST = "client.example"
PUBLIC, PRIVATE = "127.0.0.2", "127.0.0.1"
"""Addresses of this machine, the first of which plays one of the public internet where a test says so."""


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    async with canary_listening() as found:
        yield found


class Web:
    """The attacker's own server, with a certificate for its name.

    Attributes:
        script: What it does.
    """

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*authority.certificate(HOST))
        self.trusting = ssl.create_default_context(cafile=str(authority.file))

    def client(self, inner: httpx2.AsyncBaseTransport | None = None, **more: Any) -> httpx2.AsyncClient:
        """What fetches documents here, where this machine plays the public internet."""
        inner = inner or httpx2.AsyncHTTPTransport(verify=self.trusting, trust_env=False)

        async def resolve(host: str, port: int) -> Sequence[str]:
            return (PRIVATE,) if host == HOST else (host,)

        options = {"resolve": resolve, "is_allowed": lambda _: True, **more}
        return httpx2.AsyncClient(transport=PublicTransport(inner, **options), timeout=30)


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return Web(tmp_path)


def document(server_url: str, **more: Any) -> tuple[str, bytes]:
    """Return the URL of a good document at a server, and the document."""
    url = f"https://{HOST}:{urlsplit(server_url).port}/client.json"
    return url, json.dumps(
        {"client_id": url, "client_name": "x", "redirect_uris": [CALLBACK]} | more
    ).encode()


class Following(httpx2.AsyncClient):
    """Follows redirects, as a fetch without that guard would."""

    def stream(self, *arguments: Any, **options: Any) -> Any:
        return super().stream(*arguments, **{**options, "follow_redirects": True})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_leads_nowhere(web: Web, canary: Canary, status: int) -> None:
    async def redirecting(asked: Asked, reply: Reply) -> None:
        await reply.send(status, b"", {"Location": f"https://127.0.0.1:{canary.port}/"})

    def following(**more: Any) -> httpx2.AsyncClient:
        client = web.client(**more)
        return Following(transport=client._transport, timeout=30)

    async with scripted(redirecting, web.tls) as server:
        url, _ = document(server.url)
        with pytest.raises(OAuthError, match="redirects"):
            await ClientDocuments(web.client).find(url)
        assert canary.heard == 0

        # Whoever followed it would still have each address looked at.
        async def resolve(host: str, port: int) -> Sequence[str]:
            return (PUBLIC,) if host == HOST else (host,)

        class Elsewhere(httpx2.AsyncHTTPTransport):
            """Takes the one address for the other, as one machine has to play two."""

            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                url = request.url.copy_with(host=PRIVATE)
                return await super().handle_async_request(
                    httpx2.Request("GET", url, extensions=request.extensions)
                )

        checking = PublicTransport(
            Elsewhere(verify=web.trusting, trust_env=False),
            resolve=resolve,
            is_allowed=lambda each: each == PUBLIC,
        )
        with pytest.raises(OAuthError, match="not on the public internet"):
            await ClientDocuments(lambda: Following(transport=checking, timeout=30)).find(url)
        assert canary.heard == 0
        with pytest.raises(OAuthError):
            await ClientDocuments(following).find(url)
        assert canary.heard >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
async def test_a_name_that_is_bound_anew_after_it_was_checked_leads_to_where_it_was_checked(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: the name leads to a public address when it is looked at, and to this machine when it is used."""
    looked_up: list[str] = []
    real = socket.getaddrinfo

    def rebound(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host not in (HOST, HOST.encode()):
            return real(host, port, *arguments, **options)
        looked_up.append(HOST)
        return real(PUBLIC if len(looked_up) == 1 else PRIVATE, port, *arguments, **options)

    class Twice(PublicTransport):
        """Checks the name, and then has it looked up once more, as whoever does not pin the address."""

        async def _sent(self, request: httpx2.Request, addresses: Sequence[str]) -> httpx2.Response:
            return await self._inner.handle_async_request(request)

    def client(transport: type[PublicTransport]) -> Callable[[], httpx2.AsyncClient]:
        inner = httpx2.AsyncHTTPTransport(verify=web.trusting, trust_env=False)
        guarded = transport(inner, is_allowed=lambda address: address == PUBLIC)
        return lambda: httpx2.AsyncClient(transport=guarded, timeout=30)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    heard = 0

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        heard += 1
        writer.transport.abort()

    private = await asyncio.start_server(hear, PRIVATE, 0)
    port = private.sockets[0].getsockname()[1]
    url = f"https://{HOST}:{port}/client.json"
    said = json.dumps({"client_id": url, "client_name": "x", "redirect_uris": [CALLBACK]}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
        await writer.drain()
        writer.close()

    public = await asyncio.start_server(answer, PUBLIC, port, ssl=web.tls)
    try:
        await ClientDocuments(client(PublicTransport)).find(url)
        assert (len(looked_up), heard) == (1, 0)
        looked_up.clear()
        with pytest.raises(OAuthError):
            await ClientDocuments(client(Twice)).find(url)
        assert (len(looked_up), heard) == (2, 1)
    finally:
        for server in (private, public):
            server.close()
            await server.wait_closed()


class Counting(httpx2.AsyncByteStream):
    """Counts what is read of an answer."""

    def __init__(self, inner: Any) -> None:
        self.read = 0
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self.read += len(part)
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("is_compressed", [False, True])
async def test_ten_megabytes_are_not_read(
    web: Web, is_compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 10_000_000
    read: list[Counting] = []

    async def flooding(asked: Asked, reply: Reply) -> None:
        body = document(f"https://x:{asked.headers['host'].rpartition(':')[2]}")[1]
        body += b" " * (size - len(body))
        headers = {"Content-Type": "application/json"}
        if is_compressed:
            body = gzip.compress(body)
            headers["Content-Encoding"] = "gzip"
        await reply.send(200, body, headers)

    class Counted(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            read.append(Counting(response.stream))
            return httpx2.Response(response.status_code, headers=response.headers, stream=read[-1])

    def client() -> httpx2.AsyncClient:
        return web.client(inner=Counted(verify=web.trusting, trust_env=False))

    async with scripted(flooding, web.tls) as server:
        url, _ = document(server.url)
        with pytest.raises(OAuthError, match="the most that is read"):
            await ClientDocuments(client).find(url)
        assert read.pop().read < 1_000_000
        monkeypatch.setattr("mcpkit.auth.fetching.MAX_DOCUMENT", 2 * size)
        monkeypatch.setattr("mcpkit.auth.authority.client_documents._PATIENCE", 60.0)
        assert (await ClientDocuments(client).find(url)).name == "x"
        assert is_compressed or read.pop().read == size


@pytest.mark.slow
async def test_a_body_that_comes_byte_by_byte_is_not_waited_for(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time, the whole does not."""
    enough = asyncio.Event()

    async def trickling(asked: Asked, reply: Reply) -> None:
        body = document(f"https://x:{asked.headers['host'].rpartition(':')[2]}")[1]
        await reply.raw(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for byte in body:
            await reply.raw(bytes([byte]))
            if not enough.is_set():
                await asyncio.sleep(0.05)

    async with scripted(trickling, web.tls) as server:
        url, _ = document(server.url)
        monkeypatch.setattr("mcpkit.auth.authority.client_documents._PATIENCE", 0.5)
        with pytest.raises(OAuthError, match="has not answered within"):
            await ClientDocuments(web.client).find(url)
        monkeypatch.setattr("mcpkit.auth.authority.client_documents._PATIENCE", 60.0)
        asyncio.get_running_loop().call_later(1, enough.set)
        assert (await ClientDocuments(web.client).find(url)).name == "x"
