"""The listener for the redirect of a login, the browser login on this machine, and token files between processes."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from mcpkit.client.authorization.errors import AuthorizationFailedError
from mcpkit.client.authorization.file_tokens import FileTokens
from mcpkit.client.authorization.loopback import LocalCallbackServer
from mcpkit.client.authorization.redirect_listener import RedirectListener, is_loopback_redirect
from mcpkit.client.authorization.tokens import Tokens
from tests.helpers.tables import table_rows

pytestmark = pytest.mark.anyio

STATE = "s" * 32
FREE = "http://127.0.0.1/callback"


@asynccontextmanager
async def listening(uri: str = FREE) -> AsyncIterator[RedirectListener]:
    async with RedirectListener(uri) as receiver:
        receiver.expect(STATE)
        yield receiver


async def send(uri: str, request: bytes) -> bytes:
    """Send bytes to where a URI leads, and return all that comes."""
    parts = urlsplit(uri)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def get(
    uri: str, method: str = "GET", path: str | None = None, host: str | None = None, **query: str
) -> bytes:
    """Return a request as a browser makes it."""
    parts = urlsplit(uri)
    target = f"{parts.path if path is None else path}?{urlencode(query)}"
    return f"{method} {target} HTTP/1.1\r\nHost: {host or parts.netloc}\r\nAccept: */*\r\n\r\n".encode()


async def visit(uri: str, **query: str) -> bytes:
    return await send(uri, get(uri, **query))


async def test_redirect_returns_parameters_and_plain_page() -> None:
    async with listening() as receiver:
        uri = receiver.redirect_uri
        assert uri.startswith("http://127.0.0.1:")
        assert uri.endswith("/callback")
        answer = await visit(uri, code="c/1+=", state=STATE, iss="https://id.example")
        assert await receiver.redirect() == {"code": "c/1+=", "state": STATE, "iss": "https://id.example"}
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    for line in (b"Cache-Control: no-store", b"Referrer-Policy: no-referrer", b"default-src 'none'"):
        assert line in head
    assert b"<script" not in body
    assert b"c/1" not in body


def refused(uri: str) -> dict[str, tuple[bytes, bytes]]:
    """What is none of the redirect, and with which status it is refused."""
    right = {"code": "c", "state": STATE}
    host = urlsplit(uri).netloc
    return {
        "another path": (get(uri, path="/favicon.ico", **right), b"404"),
        "a path below": (get(uri, path="/callback/", **right), b"404"),
        "an encoded path": (get(uri, path="/%63allback", **right), b"404"),
        "a POST": (get(uri, method="POST", **right), b"405"),
        "a HEAD": (get(uri, method="HEAD", **right), b"405"),
        "a name that resolves to here": (get(uri, host="evil.example:80", **right), b"421"),
        "another port": (get(uri, host="127.0.0.1:1", **right), b"421"),
        "no host": (f"GET /callback?code=c&state={STATE} HTTP/1.1\r\n\r\n".encode(), b"421"),
        "two hosts": (get(uri, **right)[:-2] + f"Host: {host}\r\n\r\n".encode(), b"421"),
        "another state": (get(uri, code="c", state="t" * 32), b"400"),
        "an empty state": (get(uri, code="c", state=""), b"400"),
        "no state": (get(uri, code="c"), b"400"),
        "no code and no error": (get(uri, state=STATE), b"400"),
        "a code and an error": (get(uri, error="e", **right), b"400"),
        "two codes": (get(uri, **right).replace(b"code=c", b"code=c&code=d"), b"400"),
        "bytes that are no text": (get(uri, **right).replace(b"code=c", b"code=%ff"), b"400"),
        "many parameters": (get(uri, **right, **{f"p{n}": "" for n in range(60)}), b"400"),
        "a whole URL": (f"GET {uri}?code=c&state={STATE} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(), b"400"),
        "TLS": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
        "too much": (get(uri, junk="x" * 100_000, **right), b"431"),
    }


@pytest.mark.parametrize("what", refused("http://127.0.0.1:1/callback"))
async def test_redirect_other_requests_are_refused(what: str) -> None:
    async with listening() as receiver:
        request, status = refused(receiver.redirect_uri)[what]
        answer = await send(receiver.redirect_uri, request)
        assert answer.split(b" ")[1] == status
        assert b"Cache-Control: no-store" in answer
        assert STATE.encode() not in answer
        waiting = asyncio.ensure_future(receiver.redirect())
        await visit(receiver.redirect_uri, code="right", state=STATE)
        assert (await waiting)["code"] == "right"


@table_rows("uri", [
    "https://127.0.0.1:8080/callback", "http://example.com/callback", "http://127.0.0.2/callback",
    "com.example.app:/callback", "http://127.0.0.1:0/callback", "http://127.0.0.1:99999/callback",
    "http://127.0.0.1/callback?a=b", "http://127.0.0.1/callback#a", "http://user@127.0.0.1/callback",
    "http://127.0.0.1/call back", "http://[::1/callback", "",
])  # fmt: skip
async def test_redirect_uri_not_loopback_is_refused(uri: str) -> None:
    assert not is_loopback_redirect(uri)
    with pytest.raises(ValueError, match="does not lead to this machine"):
        RedirectListener(uri)


PAGE = "https://id.example.com/authorize"


@pytest.mark.parametrize("page", ["file:///etc/passwd"])
async def test_loopback_other_url_is_not_opened(page: str) -> None:
    displayed: list[str] = []
    async with LocalCallbackServer(open_browser=displayed.append).receive_redirect() as receiver:
        with pytest.raises(
            AuthorizationFailedError, match="the URL of the login page must begin with https://"
        ):
            await receiver.authorize(page, STATE)
    assert not displayed


RESOURCE = "https://mcp.example.com/mcp"
TOKENS = Tokens(RESOURCE, "https://id.example.com", "client", "access-SECRET")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "tokens.json"


RENEW = """
import asyncio, sys
from dataclasses import replace
from mcpkit.client.authorization.file_tokens import FileTokens

async def main():
    storage = FileTokens(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.read(1)
    async with storage.refresh_lock(sys.argv[2]):
        tokens = await storage.get_tokens(sys.argv[2])
        if tokens.access_token == "old":
            print("renewed", flush=True)
            await storage.set_tokens(replace(tokens, access_token="new"))
            tokens = await storage.get_tokens(sys.argv[2])
    print(tokens.access_token)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_file_tokens_renewed_by_one_of_several_processes(path: Path) -> None:
    await FileTokens(path).set_tokens(replace(TOKENS, access_token="old"))
    command = [sys.executable, "-c", RENEW, str(path), RESOURCE]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    output = [process.communicate(timeout=60)[0].split() for process in processes]
    assert sorted(output) == [["new"], ["new"], ["new"], ["renewed", "new"]]


DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")


@pytest.fixture(autouse=True)
def nothing_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


async def test_loopback_reuses_registered_redirect_uri() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [free.getsockname()[1], taken.getsockname()[1]]
        free.close()
        right = f"http://127.0.0.1:{ports[0]}/done"
        registered = ["https://app.example.com/done", f"http://127.0.0.1:{ports[1]}/done", right]
        async with LocalCallbackServer().receive_redirect(registered) as receiver:
            assert receiver.redirect_uri == right
        async with LocalCallbackServer().receive_redirect(registered[:2]) as receiver:
            assert receiver.redirect_uri not in registered
            assert receiver.redirect_uri.endswith("/callback")
        async with LocalCallbackServer().receive_redirect(["http://localhost/done"]) as receiver:
            assert receiver.redirect_uri.startswith("http://localhost:")
        async with LocalCallbackServer(port=ports[0], path="/own").receive_redirect(registered) as receiver:
            assert receiver.redirect_uri == f"http://127.0.0.1:{ports[0]}/own"
        with pytest.raises(AuthorizationFailedError, match=f"cannot listen on .*:{ports[1]}/"):
            async with LocalCallbackServer(port=ports[1]).receive_redirect():
                pass
