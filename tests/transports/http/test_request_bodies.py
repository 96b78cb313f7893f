"""Request bodies: media type, length, time, and the bodies of requests that are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.calls.channel import NO_HEADERS
from mcpkit.transports.http.exchange import Exchange, RefusedError
from mcpkit.transports.http.intake import refused_body as unread
from mcpkit.transports.http.intake.body import Bodies
from mcpkit.transports.http.options import Settings
from tests.helpers.raw_client import Client, Serve

pytestmark = pytest.mark.anyio


async def send(message: object) -> None:
    raise AssertionError("reading sends no response")


async def read_body(
    *parts: bytes,
    limit: int = 100,
    is_cut: bool = False,
    is_late: bool = False,
    seconds: float = 10,
    headers: Mapping[bytes, bytes] = NO_HEADERS,
) -> bytes:
    messages: list[dict[str, object]] = [
        {"type": "http.request", "body": part, "more_body": is_cut or number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]
    if is_cut:
        messages.append({"type": "http.disconnect"})
    coming = iter(messages)

    async def receive() -> dict[str, object]:
        if is_late:
            await asyncio.sleep(0)
        message = next(coming, None)
        if message is None:
            await asyncio.Event().wait()
            raise AssertionError
        return message

    bodies = Bodies(Settings(max_body=limit, body_timeout=seconds))
    return await bodies.read(Exchange(receive, send, 15, headers))


async def test_body_of_disconnected_client_is_refused() -> None:
    for parts in ([b"{"], []):
        with pytest.raises(RefusedError, match="ended before its body"):
            await read_body(*parts, is_cut=True)


async def test_body_reader_propagates_cancellation() -> None:
    reading = asyncio.ensure_future(read_body(seconds=60))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize("headers", [{b"content-length": b"2"}, {b"transfer-encoding": b"chunked"}])
@pytest.mark.parametrize("parts", [[b""], [b"", b""]])
async def test_announced_empty_body_is_refused_with_cause(
    headers: dict[bytes, bytes], parts: list[bytes]
) -> None:
    with pytest.raises(RefusedError, match=r"although its headers announce one\. Send one") as refusal:
        await read_body(*parts, headers=headers)
    assert refusal.value.status == 400
    with pytest.raises(RefusedError, match="uvicorn with --http h11"):
        await read_body(*parts, headers={**headers, b"upgrade": b"h2c"})
    assert await read_body(*parts, headers={b"content-length": b"0", b"upgrade": b"h2c"}) == b""


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200), ("application/json; charset=utf-8", 200), ("APPLICATION/JSON", 200),
        (None, 415), ("", 415), ("text/plain", 415), ("application/x-www-form-urlencoded", 415),
        ("application/json-rpc", 415), ("multipart/form-data; boundary=application/json", 415),
    ],
)  # fmt: skip
async def test_post_requires_json_media_type(content_type: str | None, status: int, client: Client) -> None:
    answer = client.call("echo", {"text": "hi"}, headers={"content-type": content_type})
    assert (await answer.whole()).status == status


async def test_post_with_content_encoding_is_refused(client: Client) -> None:
    answer = client.call("echo", {"text": "hi"}, headers={"content-encoding": "gzip"})
    assert (await answer.whole()).status == 415


LONG = str(64 * 1024 + 1)


REFUSED = [
    ("POST", "/mcp", {"origin": "https://evil.example"}, 403),
    ("POST", "/mcp", {"host": "evil.example"}, 421),
    ("PUT", "/mcp", {}, 405),
    ("GET", "/mcp", {"accept": "text/html"}, 406),
    ("DELETE", "/mcp", {}, 400),
    ("POST", "/mcp", {"accept": "text/html"}, 406),
    ("POST", "/mcp", {"content-type": "text/plain"}, 415),
    ("POST", "/mcp", {"origin": "http://localhost", "content-type": "text/plain"}, 415),
    ("POST", "/sse", {}, 405),
    ("POST", "/messages", {}, 404),
    ("POST", "/own", {"host": "evil.example"}, 421),
    ("POST", "/nothing", {}, 404),
]


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_SOON", 0.01)
    monkeypatch.setattr(unread, "_LATE", 0.01)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_SOON", 60)
    monkeypatch.setattr(unread, "_LATE", 60)


def post_headers(headers: dict[str, str], **more: str) -> dict[str, str]:
    return {"content-type": "application/json", **more} | headers


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
async def test_refused_request_with_short_body_keeps_connection(
    method: str, path: str, headers: dict[str, str], status: int, client: Client
) -> None:
    pairs = post_headers(headers) | {"content-length": "6"}
    answer = client.open(method, path, headers=pairs, body=None).feed(b"123", more=True)
    answer = await answer.feed(b"456").whole()
    assert (answer.status, answer.headers.get("connection")) == (status, None)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("size", [{"content-length": LONG}, {"transfer-encoding": "chunked"}])
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED[::2])
@pytest.mark.limit("body of a request that is refused")
async def test_refused_request_with_long_body_drops_rest_and_closes(
    method: str, path: str, headers: dict[str, str], status: int, size: dict[str, str], client: Client
) -> None:
    answer = await client.open(method, path, headers=post_headers(headers) | size, body=None).head()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    answer.feed(b"x" * 64 * 1024, more=True).feed(b"x")
    assert (await answer.whole()).body


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize(
    ("body", "size", "options", "status"),
    [
        (None, {"content-length": "101"}, {"max_body": 100}, 413),
        (None, {"content-length": LONG}, {"max_body": 100}, 413),
        (b"x" * 101, {"transfer-encoding": "chunked"}, {"max_body": 100}, 413),
        (b"{", {"content-length": "2"}, {"body_timeout": 0.01}, 408),
    ],
)
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.limit("time for a body")
async def test_large_or_slow_body_closes_connection(
    body: bytes | None,
    size: dict[str, str],
    options: dict[str, Any],
    status: int,
    version: str,
    server: Server,
    serve: Serve,
) -> None:
    async with serve(server, **options) as client:
        answer = client.open("POST", headers=post_headers(size), body=None, http_version=version)
        if body is not None:
            answer.feed(body, more=True)
        assert (await answer.whole()).status == status
        assert answer.headers.get("connection") == (None if version == "2" else "close")
