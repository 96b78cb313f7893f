"""Requests that are refused before their body has been read: the client sees the answer, and holds nothing."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcpkit import Server
from mcpkit.transports.http.intake import refused_body as unread
from tests.helpers.asgi_client import Serve
from tests.helpers.event_streams import site

pytestmark = pytest.mark.anyio

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
    """Nothing is waited for."""
    monkeypatch.setattr(unread, "_SOON", 0.01)
    monkeypatch.setattr(unread, "_LATE", 0.01)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes is waited for."""
    monkeypatch.setattr(unread, "_SOON", 60)
    monkeypatch.setattr(unread, "_LATE", 60)


def request(headers: dict[str, str], **more: str) -> dict[str, str]:
    return {"content-type": "application/json", **more} | headers


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
async def test_a_short_body_is_read_and_the_connection_stays(
    method: str, path: str, headers: dict[str, str], status: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        pairs = request(headers) | {"content-length": "6"}
        answer = client.open(method, path, headers=pairs, body=None).feed(b"123", more=True)
        answer = await answer.feed(b"456").whole()
        assert (answer.status, answer.headers.get("connection")) == (status, None)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("size", [{"content-length": LONG}, {"transfer-encoding": "chunked"}])
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
async def test_the_rest_of_a_long_body_is_dropped_behind_the_answer(
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
    size: dict[str, str],
    server: Server,
    serve: Serve,
) -> None:
    async with serve(server) as client:
        answer = await client.open(method, path, headers=request(headers) | size, body=None).head()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        answer.feed(b"x" * 64 * 1024, more=True).feed(b"x")
        assert (await answer.whole()).body


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("length", ["1", LONG])
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
async def test_a_body_that_does_not_come_is_not_waited_for(
    method: str, path: str, headers: dict[str, str], status: int, length: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        pairs = request(headers) | {"content-length": length}
        answer = await client.open(method, path, headers=pairs, body=None).whole()
        assert (answer.status, answer.headers["connection"]) == (status, "close")


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
@pytest.mark.parametrize("version", ["1.0", "1.1", "2"])
async def test_a_body_that_is_too_long_or_too_slow_ends_its_connection(
    body: bytes | None,
    size: dict[str, str],
    options: dict[str, Any],
    status: int,
    version: str,
    server: Server,
    serve: Serve,
) -> None:
    async with serve(server, **options) as client:
        answer = client.open("POST", headers=request(size), body=None, http_version=version)
        if body is not None:
            answer.feed(body, more=True)
        assert (await answer.whole()).status == status
        assert answer.headers.get("connection") == (None if version == "2" else "close")


@pytest.mark.usefixtures("patience")
async def test_only_so_much_is_dropped(server: Server, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_MUCH", 1000)
    async with serve(server) as client:
        headers = {"content-type": "text/plain", "content-length": "1000000"}
        answer = client.open("POST", headers=headers, body=None)
        assert (await answer.feed(b"x" * 999, more=True).feed(b"x", more=True).whole()).status == 415


@pytest.mark.usefixtures("patience")
async def test_a_client_that_goes_is_told_nothing_more(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        headers = {"content-type": "text/plain", "content-length": LONG}
        answer = await client.open("POST", headers=headers, body=None).feed(b"x", more=True).head()
        answer.disconnect()
        await answer.whole()
        assert answer.late == []


@pytest.mark.usefixtures("patience")
async def test_a_client_that_goes_in_a_short_body_is_not_waited_for(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        headers = {"content-type": "text/plain", "content-length": "6"}
        answer = client.open("POST", headers=headers, body=None).feed(b"x", more=True)
        answer.disconnect()
        await answer.whole()


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("web", ["h11", "httptools"])
def test_a_client_that_sends_before_it_reads_sees_the_refusal(web: str) -> None:
    with site(Server("s"), uvicorn={"http": web}) as there:
        connection = http.client.HTTPConnection(urlsplit(there.url).netloc, timeout=60)
        try:
            for size, content_type, status in (
                (5_000_000, "application/json", 413),
                (5_000_000, "text/plain", 415),
                (20_000, "text/plain", 415),
            ):
                connection.request("POST", "/mcp", b"x" * size, {"Content-Type": content_type})
                answer = connection.getresponse()
                assert (answer.status, answer.will_close) == (status, size > 64 * 1024)
                assert answer.read()
        finally:
            connection.close()
