"""The login page in a browser, the listener for the redirect of a login, and token files between processes."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.auth import login_callback
from mcpkit.client.auth.authorization_server_client import AuthorizationFailedError
from mcpkit.client.auth.token_storage import FileTokens, Tokens
from tests.helpers.tables import each_row

STATE = "0123456789abcdef" * 2


@asynccontextmanager
async def listening() -> AsyncIterator[login_callback.RedirectListener]:
    async with login_callback.RedirectListener("http://127.0.0.1/callback") as receiver:
        receiver.expect(STATE)
        yield receiver


async def send(uri: str, request: bytes) -> bytes:
    """Send bytes to the listener, and return its answer."""
    parts = urlsplit(uri)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def get(uri: str, method: str = "GET", path: str = "/callback", host: str = "", **query: str) -> bytes:
    """Return a request as a browser makes it."""
    target = f"{path}?{urlencode(query)}"
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {host or urlsplit(uri).netloc}\r\nAccept: */*\r\n\r\n".encode()
    )


async def test_redirect_returns_parameters_and_plain_page() -> None:
    async with listening() as receiver:
        uri = receiver.redirect_uri
        assert uri.startswith("http://127.0.0.1:")
        assert uri.endswith("/callback")
        answer = await send(uri, get(uri, code="c/1+=", state=STATE, iss="https://id.example"))
        assert await receiver.redirect() == {"code": "c/1+=", "state": STATE, "iss": "https://id.example"}
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    for line in (b"Cache-Control: no-store", b"Referrer-Policy: no-referrer", b"default-src 'none'"):
        assert line in head
    assert b"<script" not in body
    assert b"c/1" not in body


def refused(uri: str) -> dict[str, tuple[bytes, bytes]]:
    """Return requests that are not the redirect, with the statuses of their answers."""
    right = {"code": "c", "state": STATE}
    host = urlsplit(uri).netloc
    return {
        "another path": (get(uri, path="/favicon.ico", **right), b"404"),
        "a path below": (get(uri, path="/callback/", **right), b"404"),
        "an encoded path": (get(uri, path="/%63allback", **right), b"404"),
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


@each_row("name", list(refused("http://127.0.0.1:1/callback")))
async def test_redirect_other_requests_are_refused(name: str) -> None:
    async with listening() as receiver:
        uri = receiver.redirect_uri
        request, status = refused(uri)[name]
        answer = await send(uri, request)
        assert answer.split(b" ")[1] == status
        assert b"Cache-Control: no-store" in answer
        assert STATE.encode() not in answer
        waiting = asyncio.ensure_future(receiver.redirect())
        await send(uri, get(uri, code="right", state=STATE))
        assert (await waiting)["code"] == "right"


@each_row("uri", [
    "https://127.0.0.1:8080/callback", "http://example.com/callback", "http://127.0.0.2/callback",
    "com.example.app:/callback", "http://127.0.0.1:0/callback", "http://127.0.0.1:99999/callback",
    "http://127.0.0.1/callback?a=b", "http://127.0.0.1/callback#a", "http://user@127.0.0.1/callback",
    "http://127.0.0.1/call back", "http://[::1/callback", "",
])  # fmt: skip
async def test_redirect_uri_not_loopback_is_refused(uri: str) -> None:
    assert not login_callback.is_loopback_redirect(uri)
    with pytest.raises(ValueError, match="does not lead to this machine"):
        login_callback.RedirectListener(uri)


EXPECTED = login_callback.ExpectedRedirect("127.0.0.1:8000", "/callback", STATE)
RIGHT = f"GET /callback?code=c&state={STATE} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode()


def refusal(head: bytes) -> str | None:
    """Return status and message of the answer that refuses a request."""
    try:
        login_callback.parse_redirect(head, EXPECTED)
    except login_callback.UnexpectedRequestError as refused:
        return f"{refused.status} {refused.message}"
    return None


@given(st.integers(0, len(RIGHT) - 5), st.binary(min_size=1, max_size=4))
def test_redirect_mutated_is_refused_or_has_state(place: int, part: bytes) -> None:
    head = RIGHT[:place] + part + RIGHT[place + len(part) :]
    answer = refusal(head)
    if answer is None:
        assert f"state={STATE}".encode() in head
        assert head.startswith(b"GET /callback?")
    else:
        assert answer[:3] in {"400", "404", "405", "421"}
        assert answer.isascii()


PAGE = "https://id.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback&state=x"


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


async def test_open_browser_without_display_prints_page(capsys: pytest.CaptureFixture[str]) -> None:
    await login_callback.open_browser(PAGE)
    out, err = capsys.readouterr()
    assert out == ""
    assert PAGE in err
    assert "ssh" not in err


@pytest.mark.parametrize(("environment", "headless"), [
    ({}, True), ({"DISPLAY": ":0"}, False), ({"WAYLAND_DISPLAY": "wayland-0"}, False), ({"BROWSER": "w3m"}, False),
    ({"SSH_CONNECTION": "a"}, True), ({"SSH_CONNECTION": "a", "DISPLAY": "localhost:10.0"}, False),
])  # fmt: skip
def test_is_headless_by_environment(environment, headless, monkeypatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert login_callback.is_headless() == headless


@each_row("url", [
    "file:///etc/passwd", "javascript:alert(1)", "-new-window https://id.example", "https://id.example/a b",
    'https://id.example/"&calc"', "https://id.example/$(id)", "https://id.example/\n", "https://id.example/`id`",
    "https:///", "",
])  # fmt: skip
async def test_login_page_of_other_url_is_not_opened(url: str) -> None:
    displayed: list[str] = []
    async with login_callback.LocalCallbackServer(
        open_browser=displayed.append
    ).receive_redirect() as receiver:
        with pytest.raises(AuthorizationFailedError, match="URL of the login page must begin with https://"):
            await receiver.authorize(url, STATE)
    assert not displayed


RESOURCE = "https://mcp.example.com/mcp"
RENEW = """
import asyncio, sys
from dataclasses import replace
from mcpkit.client.auth.token_storage import FileTokens

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
async def test_file_tokens_renewed_by_one_of_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "tokens.json"
    await FileTokens(path).set_tokens(Tokens(RESOURCE, "https://id.example.com", "client", "old"))
    command = [sys.executable, "-c", RENEW, str(path), RESOURCE]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("x")
        process.stdin.flush()
    output = [process.communicate(timeout=60)[0].split() for process in processes]
    assert sorted(output) == [["new"], ["new"], ["new"], ["renewed", "new"]]


async def test_loopback_reuses_registered_redirect_uri() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [free.getsockname()[1], taken.getsockname()[1]]
        free.close()
        right = f"http://127.0.0.1:{ports[0]}/done"
        registered = ["https://app.example.com/done", f"http://127.0.0.1:{ports[1]}/done", right]

        async def chosen(uris: Sequence[str] = (), **options: Any) -> str:
            async with login_callback.LocalCallbackServer(**options).receive_redirect(uris) as receiver:
                return receiver.redirect_uri

        assert await chosen(registered) == right
        assert (await chosen(registered[:2])).endswith("/callback")
        assert (await chosen(["http://localhost/done"])).startswith("http://localhost:")
        assert await chosen(registered, port=ports[0], path="/own") == f"http://127.0.0.1:{ports[0]}/own"
        with pytest.raises(AuthorizationFailedError, match=f"cannot listen on .*:{ports[1]}/"):
            await chosen(port=ports[1])
