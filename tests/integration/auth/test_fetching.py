"""Documents of issuers and clients, fetched over HTTP within limits."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from typing import Any

import httpx2
import pytest

from mcpkit.auth.fetching import MAX_DOCUMENT, FetchError, fetch_document, max_age_of
from mcpkit.auth.urls import MetadataError
from tests.helpers.scripted_http import Asked, Reply, scripted
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

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


@pytest.mark.parametrize(
    "media_type", ["application/json", "Application/JSON; charset=utf-8", "application/jwk-set+json"]
)
async def test_fetch_returns_json_object(media_type):
    document = await fetch(respond_with(b'{"issuer": "x"}', Content_Type=media_type))

    assert document == ({"issuer": "x"}, None)


@pytest.mark.slow
@pytest.mark.limit("document of a provider")
async def test_fetch_limits_decompressed_size():
    small = gzip.compress(json.dumps({"a": "b" * 1000}).encode())
    bomb = gzip.compress(b'{"a": "' + b"b" * (64 * MAX_DOCUMENT) + b'"}')

    assert (await fetch(respond_with(small, Content_Encoding="gzip"))).members == {"a": "b" * 1000}
    assert "has sent more than 524,288 bytes" in str(
        await fetch_error(respond_with(bomb, Content_Encoding="gzip"))
    )
    assert "compressed" in str(await fetch_error(respond_with(small, Content_Encoding="br")))


@each_row(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"cache-control": "public, max-age=300"}, 300),
        ({"cache-control": 'MAX-AGE="300"', "age": "120"}, 180),
        ({"cache-control": "max-age=300", "age": "900"}, 0),
        ({"cache-control": "max-age=300, no-store"}, 0),
        ({"cache-control": "no-cache"}, 0),
        ({"cache-control": "max-age=soon"}, None),
        ({"expires": "Sun, 22 Nov 2026 12:10:00 GMT", "date": "Sun, 22 Nov 2026 12:00:00 GMT"}, 600),
        ({"expires": "0", "date": "Sun, 22 Nov 2026 12:00:00 GMT"}, 0),
        ({"expires": "Sun, 22 Nov 2026 12:10:00", "date": "Sun, 22 Nov 2026 12:00:00 GMT"}, 0),
        ({"cache-control": "max-age=1" + "0" * 5000}, None),
    ],
)
def test_max_age_of_headers(headers, seconds):
    assert max_age_of(headers) == seconds


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

    assert "no JSON object" in str(error)
    assert not error.may_pass


async def test_fetch_ignores_media_type():
    error = await fetch_error(respond_with(b"<h1>Hello</h1>", Content_Type="text/html; charset=utf-8"))

    assert "no JSON object" in str(error)
    assert "(text/html)" in str(error)
    for media_type in (
        "",
        "text/html",
        "binary/octet-stream",
        "application/jwk-set+json; charset=utf-8",
        "no type",
    ):
        for body in (b'{"a": 1}', b'\xef\xbb\xbf{"a": 1}'):
            assert (await fetch(respond_with(body, Content_Type=media_type))).members == {"a": 1}


@pytest.mark.parametrize(
    ("status", "may_pass"), [(404, False), (403, False), (429, True), (500, True), (503, True)]
)
async def test_fetch_error_status_raises(status, may_pass):
    error = await fetch_error(respond_with(b'{"issuer": "x"}', status))

    assert f"has answered {status}" in str(error)
    assert (error.status, error.may_pass) == (status, may_pass)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_fetch_redirect_raises(status):
    async def script(asked: Asked, reply: Reply) -> None:
        assert asked.target == "/mcp"
        await reply.send(status, b"", {"Location": "/other"})

    error = await fetch_error(script)
    assert f"redirects ({status}), which is not followed" in str(error)
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
        assert "has not answered within 0.1 s" in str(error)
        assert error.may_pass


async def test_fetch_connection_error_raises():
    async def cut(asked: Asked, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        reply.cut()

    assert "broke before the answer was there" in str(await fetch_error(cut))
    async with scripted(cut) as server:
        url = server.url
    with pytest.raises(
        FetchError, match=r"cannot connect to http://127\.0\.0\.1:.*: Connection refused"
    ) as caught:
        await fetch_document(url, NAME)
    assert caught.value.may_pass


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
