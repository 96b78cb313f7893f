"""Stores, logs and responses of worker processes hold no secrets and no unfinished logins."""

from __future__ import annotations

import base64
import binascii
import json
import re
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from urllib.parse import parse_qsl, quote, quote_plus

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.helpers.fake_idp import REVOKE, TOKEN, USERINFO
from tests.integration.auth.workers import EMAIL, SECRET, HeldProvider, Journey, Workers, secrets_of

pytestmark = [pytest.mark.anyio, pytest.mark.long]

_LONG = 48


_ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{24,}")


_HEX = re.compile(rb"(?:[0-9A-Fa-f]{2}){16,}")


_COMPRESSED = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")


_DEEP = 3


_MOST = 1 << 20


def find_secrets(data: bytes, secrets: Mapping[str, Sequence[str]]) -> set[str]:
    kinds: set[str] = set()
    wanted = [(kind, name, form) for kind, each in secrets.items() for name, form in _wanted(each)]
    for layer in _layers(data, _DEEP):
        kinds |= {f"{kind}: {name}" for kind, name, form in wanted if form in layer}
    return kinds


def _wanted(secrets: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for secret in dict.fromkeys(secrets):
        for piece in _pieces(secret):
            yield from forms(piece.encode())


def _pieces(secret: str) -> Iterator[str]:
    *_, signature = secret.rpartition(".")
    if secret.startswith("eyJ"):
        payload = secret.split(".")[1]
        yield payload[len(payload) // 2 :][:_LONG]
        yield signature[:_LONG]
    elif len(secret) >= _LONG:
        yield secret[: _LONG // 2]
        yield secret[-_LONG // 2 :]
    else:
        yield secret


def forms(secret: bytes) -> Iterator[tuple[str, bytes]]:
    text = secret.decode()
    yield "raw", secret
    yield "reversed", secret[::-1]
    yield "hex", secret.hex().encode()
    yield "HEX", secret.hex().upper().encode()
    yield "UTF-16", text.encode("utf-16-le")
    for encoded in {quote(text, safe=""), quote_plus(text), quote(text, safe="").lower()} - {text}:
        yield "URL", encoded.encode()
    for written in {json.dumps(text)[1:-1], text.replace("/", "\\/")} - {text}:
        yield "JSON", written.encode()
    for shift in range(3):
        # What stands before it moves it, and what stands at its edges is mixed with its neighbours.
        first = (8 * shift + 5) // 6 if shift else 0
        length = (8 * (shift + len(secret))) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield f"base64, {shift}", encode(bytes(shift) + secret)[first:length]


def _layers(data: bytes, deep: int) -> Iterator[bytes]:
    yield data
    if not deep:
        return
    for match in _COMPRESSED.finditer(data):
        inflated = _inflated(data[match.start() : match.start() + _MOST])
        if inflated:
            yield from _layers(inflated, deep - 1)
    for match in _HEX.finditer(data):
        yield from _inner(binascii.unhexlify(match[0]), deep)
    for match in _ENCODED.finditer(data):
        for start in range(4):
            text = match[0][start:].translate(bytes.maketrans(b"-_", b"+/"))
            whole = text[: len(text) - (len(text) % 4 == 1)]
            yield from _inner(base64.b64decode(whole + b"=" * (-len(whole) % 4)), deep)


def _inner(data: bytes, deep: int) -> Iterator[bytes]:
    if data.isascii() or _COMPRESSED.search(data):
        yield from _layers(data, deep - 1)


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        return inflater.decompress(data, _MOST)
    except zlib.error:
        return b""


PLANTED = "AbCd+/~efGhIjKlMnOpQrStUvWxYz0123"


async def test_find_secrets_in_store_log_and_response(workers, openid_provider):
    async with Journey(workers) as user:
        await user.to_tokens()
        for way in ("store", "log", "answer"):
            await user.call("plant", where=way, text=f"{PLANTED}-{way}")
    places = {"store": b"\n".join(workers.stored().values()), "log": workers.notes()}
    places["answer"] = b"\n".join(workers.heard)
    for way, data in places.items():
        assert find_secrets(data, {"token": [f"{PLANTED}-{way}"]}), way


async def test_store_backup_logs_and_responses_hold_no_secrets(workers, openid_provider):
    async with Journey(workers) as user:
        await user.discover()
        await user.to_tokens()
        await user.ask_provider()
        await user.refresh()
        openid_provider.seconds = 50
        async with Journey(workers) as other:  # whose tokens at the provider are due at once
            await other.to_tokens()
            await other.ask_provider()
            workers.replace_the_last()
            await other.refresh()
            await cause_provider_errors(other, openid_provider)
        assert find_secrets(all_bytes(workers), secrets_of(openid_provider, SECRET)) == set()
        await user.revoke()
        await user.be_refused()
    everywhere = all_bytes(workers)
    secrets = secrets_of(openid_provider, SECRET)
    assert secrets.keys() == {"access", "refresh", "ID token", "verifier", "client secret", "e-mail", "other"}
    assert len(workers.notes()) > 10_000
    assert b"DEBUG" in workers.notes()
    assert find_secrets(everywhere, secrets) == set()


async def cause_provider_errors(user: Journey, openid_provider: HeldProvider) -> None:
    refused = await user.refreshed({"refresh_token": "nothing." + user.held["refresh_token"]})
    assert refused.status_code == 400
    for fails in (_fails, _refuses, _repeats, _repeats_form, _babbles):
        for step in (user.open_page, user.allow, user.log_in):
            await step()
        openid_provider.instead = lambda request, fails=fails: (
            fails(request) if request.url.path in {TOKEN, USERINFO, REVOKE} else None
        )
        await user.call("at_provider")
        await user.refreshed(user.held)
        assert "code=" not in (await user.browser.get(user.callback_url)).headers["location"]
        openid_provider.mend()


def _fails(_: Request) -> Response:
    return Response(status_code=500)


def _refuses(_: Request) -> Response:
    return JSONResponse({"error": "access_denied", "error_description": f"{EMAIL} may not"}, 400)


def _repeats(request: Request) -> Response:
    sent = f"{request.headers.get('authorization')} at {request.url}"
    return JSONResponse({"error": "invalid_request", "error_description": sent, "error_uri": sent}, 400)


def _repeats_form(request: Request) -> Response:
    form = dict(parse_qsl(getattr(request, "_body", b"").decode()))
    sent = " ".join(form.get(name, "") for name in ("code_verifier", "refresh_token", "token"))
    return JSONResponse({"error": "invalid_request", "error_description": sent, "error_uri": sent}, 400)


def _babbles(request: Request) -> Response:
    return Response(request.headers.get("authorization", "") * 3, media_type="text/html")


def all_bytes(workers: Workers) -> bytes:
    return b"\n".join([*workers.stored().values(), workers.notes(), *workers.heard])


MANY = 30


def stored_seconds(workers: Workers) -> dict[str, float]:
    if workers.redis is not None:
        keys = [key for key in workers.redis.ask("KEYS", "*") if b"/sealed/" in key]
        return {key.decode(): workers.redis.ask("PTTL", key) / 1000 for key in keys}
    with closing(sqlite3.connect(workers.file)) as connection:
        rows = connection.execute("SELECT key, expires FROM stored WHERE key LIKE '%/sealed/%'")
        return {str(key): float(expires) - time.time() for key, expires in rows}


async def test_unfinished_logins_store_nothing(workers):
    async with Journey(workers) as user:
        await user.register()
        before = stored_seconds(workers)
        for _ in range(MANY):
            await user.register()
            await user.open_page()
            await user.allow()
        assert stored_seconds(workers) == before


async def test_unredeemed_code_expires_after_two_minutes(workers):
    async with Journey(workers) as user:
        before = stored_seconds(workers)
        await user.to_code()
        left = sorted(stored_seconds(workers)[key] for key in stored_seconds(workers).keys() - before.keys())
        assert len(left) == 2, "that it is answered, and the grant"
        assert left[0] <= 120
        assert left[1] <= 1200
