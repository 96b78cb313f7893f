"""What is kept, logged and answered: no token of the provider's, nor anything else that is secret."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, quote_plus

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.helpers.held_provider import EMAIL, HeldProvider, secrets_of
from tests.helpers.leaks import found
from tests.helpers.login_workers import SECRET, Journey, Workers
from tests.helpers.openid_site import REVOKE, TOKEN, USERINFO

pytestmark = [pytest.mark.anyio, pytest.mark.long]


PLANTED = "AbCd+/~efGhIjKlMnOpQrStUvWxYz0123"
WAYS: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "in a URL": lambda secret: quote(secret, safe="").encode(),
    "hex": lambda secret: secret.hex().encode(),
    "base64": base64.b64encode,
    "base64, behind a byte": lambda secret: base64.b64encode(b"x" + secret + b"more"),
    "base64url, behind two bytes": lambda secret: base64.urlsafe_b64encode(b"xx" + secret + b"m"),
    "a header of HTTP": lambda secret: b"Basic " + base64.b64encode(b"me:" + quote_plus(secret).encode()),
    "zlib": zlib.compress,
    "gzip": gzip.compress,
    "base64 of zlib": lambda secret: base64.urlsafe_b64encode(zlib.compress(b'{"token": "' + secret)),
    "base64 of base64": lambda secret: base64.b64encode(base64.b64encode(b"a: " + secret)),
    "UTF-16": lambda secret: secret.decode().encode("utf-16-le"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_planted_is_found(way: str) -> None:
    written = WAYS[way](PLANTED.encode())
    assert found(b"\x00before " + written + b" after\xff", {"token": [PLANTED], "other": ["something else"]})
    assert not found(b"\x00before " + written[2:8] + b" after\xff", {"token": [PLANTED]})


async def test_what_is_planted_in_each_place_is_found(workers: Workers, openid: HeldProvider) -> None:
    """By a server that keeps, logs and answers it."""
    async with Journey(workers) as user:
        await user.to_tokens()
        for way in ("store", "log", "answer"):
            await user.call("plant", where=way, text=f"{PLANTED}-{way}")
    places = {"store": b"\n".join(workers.stored().values()), "log": workers.notes()}
    places["answer"] = b"\n".join(workers.heard)
    for way, data in places.items():
        assert found(data, {"token": [f"{PLANTED}-{way}"]}), way


async def test_no_secret_is_in_a_store_a_backup_a_log_or_an_answer(
    workers: Workers, openid: HeldProvider
) -> None:
    async with Journey(workers) as user:
        await user.discover()
        await user.to_tokens()
        await user.ask_provider()
        await user.refresh()
        openid.seconds = 50
        async with Journey(workers) as other:  # whose tokens at the provider are due at once
            await other.to_tokens()
            await other.ask_provider()
            workers.replace_the_last()
            await other.refresh()
            await trouble(other, openid)
        assert found(everything(workers), secrets_of(openid, SECRET)) == set()
        await user.revoke()
        await user.be_refused()
    everywhere = everything(workers)
    secrets = secrets_of(openid, SECRET)
    assert secrets.keys() == {"access", "refresh", "ID token", "verifier", "client secret", "e-mail", "other"}
    assert len(workers.notes()) > 10_000
    assert b"DEBUG" in workers.notes()
    assert found(everywhere, secrets) == set()


async def trouble(user: Journey, openid: HeldProvider) -> None:
    """Have the provider fail in many ways, and repeat in its errors what it was sent."""
    refused = await user.refreshed({"refresh_token": "nothing." + user.held["refresh_token"]})
    assert refused.status_code == 400
    for fails in (_fails, _refuses, _repeats, _repeats_form, _babbles):
        for step in (user.open_page, user.allow, user.log_in):
            await step()
        openid.instead = lambda request, fails=fails: (
            fails(request) if request.url.path in {TOKEN, USERINFO, REVOKE} else None
        )
        await user.call("at_provider")
        await user.refreshed(user.held)
        assert "code=" not in (await user.browser.get(user.callback_url)).headers["location"]
        openid.mend()


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


def everything(workers: Workers) -> bytes:
    """All bytes that somebody else could get hold of: the store and its backups, logs, and what clients were told."""
    return b"\n".join([*workers.stored().values(), workers.notes(), *workers.heard])
