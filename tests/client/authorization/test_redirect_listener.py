"""The listener that waits for the end of a login: what it takes, what it refuses, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlencode, urlsplit

import pytest

from mcpkit.client.authorization.redirect_listener import RedirectListener, is_loopback_redirect
from tests.helpers.waiting import over, until

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


async def test_the_redirect_comes_back_with_its_parameters_and_a_page_without_scripts() -> None:
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


async def test_an_error_is_an_answer_too_and_the_page_shows_nothing_of_it() -> None:
    async with listening() as receiver:
        answer = await visit(
            receiver.redirect_uri, error="access_denied", error_description="<b>no", state=STATE
        )
        assert (await receiver.redirect())["error"] == "access_denied"
    assert b"denied" not in answer
    assert b"<b>" not in answer


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
async def test_what_is_not_the_redirect_is_refused_and_waiting_goes_on(what: str) -> None:
    async with listening() as receiver:
        request, status = refused(receiver.redirect_uri)[what]
        answer = await send(receiver.redirect_uri, request)
        assert answer.split(b" ")[1] == status
        assert b"Cache-Control: no-store" in answer
        assert STATE.encode() not in answer
        waiting = asyncio.ensure_future(receiver.redirect())
        await visit(receiver.redirect_uri, code="right", state=STATE)
        assert (await waiting)["code"] == "right"


async def test_one_redirect_is_taken_and_what_comes_after_it_is_told_so() -> None:
    async with listening() as receiver:
        await visit(receiver.redirect_uri, code="first", state=STATE)
        answer = await visit(receiver.redirect_uri, code="second", state=STATE)
        assert b" 410 " in answer
        assert (await receiver.redirect())["code"] == "first"


async def test_connections_that_say_nothing_keep_nobody_waiting_and_end_with_it() -> None:
    async with listening() as receiver:
        parts = urlsplit(receiver.redirect_uri)
        silent = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(20)]
        silent[0][1].write(b"GET /callback")
        await visit(receiver.redirect_uri, code="c", state=STATE)
        assert (await receiver.redirect())["code"] == "c"
    for reader, writer in silent:
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_it_listens_within_its_block_alone() -> None:
    async with listening() as receiver:
        port = urlsplit(receiver.redirect_uri).port
        assert port is not None
    with pytest.raises(ConnectionRefusedError):
        await visit(f"http://127.0.0.1:{port}/callback", code="c", state=STATE)
    async with listening(f"http://127.0.0.1:{port}/callback") as receiver:  # at once, at the same port
        assert urlsplit(receiver.redirect_uri).port == port


async def test_nothing_is_taken_before_it_is_known_what_is_waited_for() -> None:
    async with RedirectListener(FREE) as receiver:
        assert b" 400 " in await visit(receiver.redirect_uri, code="c", state="")
        assert b" 400 " in await visit(receiver.redirect_uri, code="c")
        receiver.expect(STATE)
        await visit(receiver.redirect_uri, code="right", state=STATE)
        assert (await receiver.redirect())["code"] == "right"


async def test_a_login_that_is_cancelled_leaves_no_listener_no_task_and_no_thread() -> None:
    before = threading.active_count()
    tasks = asyncio.all_tasks()
    uris: list[str] = []

    async def log_in() -> None:
        async with listening() as receiver:
            uris.append(receiver.redirect_uri)
            await receiver.redirect()

    task = asyncio.ensure_future(log_in())
    await until(lambda: uris)
    await over(task)
    with pytest.raises(ConnectionRefusedError):
        await visit(uris[0], code="c", state=STATE)
    assert asyncio.all_tasks() == tasks
    assert threading.active_count() == before


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        with pytest.raises(OSError, match=f"cannot wait for the end of a login at {uri}"):
            async with listening(uri):
                pass


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_a_redirect_uri_without_a_port_gets_a_free_one(host: str) -> None:
    async with listening(f"http://{host}/oauth/done") as receiver:
        parts = urlsplit(receiver.redirect_uri)
        assert parts.port
        assert receiver.redirect_uri == f"http://{host}:{parts.port}/oauth/done"
        await visit(receiver.redirect_uri, code="c", state=STATE)
        assert (await receiver.redirect())["code"] == "c"


@pytest.mark.parametrize(
    "uri",
    [
        "https://127.0.0.1:8080/callback",
        "http://example.com/callback",
        "http://127.0.0.2/callback",
        "com.example.app:/callback",
        "http://127.0.0.1:0/callback",
        "http://127.0.0.1:99999/callback",
        "http://127.0.0.1/callback?a=b",
        "http://127.0.0.1/callback#a",
        "http://user@127.0.0.1/callback",
        "http://127.0.0.1/call back",
        "http://[::1/callback",
        "",
    ],
)
async def test_a_redirect_uri_that_leads_elsewhere_is_refused(uri: str) -> None:
    assert not is_loopback_redirect(uri)
    with pytest.raises(ValueError, match=r"a redirect URI that this process hears of is http://127\.0\.0\.1"):
        RedirectListener(uri)


async def test_a_state_that_could_be_guessed_is_refused() -> None:
    async with RedirectListener(FREE) as receiver:
        with pytest.raises(ValueError, match="at least 16 characters"):
            receiver.expect("1234")
