"""Stores, logs and responses of worker processes hold no secrets and no unfinished logins."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from urllib.parse import parse_qsl

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.helpers.fake_idp import REVOKE, TOKEN, USERINFO
from tests.integration.auth.traffic import contains
from tests.integration.auth.workers import EMAIL, SECRET, HeldProvider, Journey, Workers, secrets_of

pytestmark = [pytest.mark.anyio, pytest.mark.long]


def find_secrets(data: bytes, secrets: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the kinds of secrets that occur in some bytes, whole or, where logs cut them, in part."""
    return {
        kind
        for kind, values in secrets.items()
        for value in values
        if any(contains(data, part) for part in parts(value))
    }


def parts(secret: str) -> list[str]:
    if secret.startswith("eyJ"):
        return [secret.rpartition(".")[2][:48]]
    return [secret[:24], secret[-24:]] if len(secret) >= 48 else [secret]


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
