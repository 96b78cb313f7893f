"""Logins across four worker processes: crashes, races, a dead store, and secrets in stores, logs and responses."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.helpers.fake_idp import REVOKE, TOKEN, USERINFO
from tests.helpers.redis_server import RedisServer
from tests.helpers.waiting import DEFAULT_TIMEOUT
from tests.integration.auth.servers import contains
from tests.integration.auth.workers import EMAIL, SECRET, HeldProvider, Journey, Workers, secrets_of

MANY = 30

pytestmark = [pytest.mark.anyio, pytest.mark.long]


ON_SQLITE = pytest.mark.parametrize("workers", ["sqlite"], indirect=True)


@ON_SQLITE
async def test_login_survives_kill_of_worker_after_each_step_that_stores(workers, openid_provider):
    before = len(openid_provider.revoked)
    async with Journey(workers) as user:
        for step in (
            user.discover,
            user.read_metadata,
            user.register,
            user.open_page,
            user.allow,
            user.log_in,
            user.come_back,
            user.redeem,
            user.whoami,
            user.ask_provider,
            user.refresh,
            user.ask_provider,
            user.refresh,
            user.whoami,
            user.revoke,
        ):
            await step()
            if step in {user.register, user.allow, user.come_back, user.redeem, user.refresh}:
                workers.replace_the_last()
        await user.be_refused()
    assert openid_provider.latest.is_over, "the provider has not heard of the revocation"
    assert len(openid_provider.revoked) > before


async def loses(user: Journey, redis: RedisServer, step: Callable[[], Awaitable[None]]) -> None:
    redis.kill()
    if user.got:
        refused = await user.redeemed(user.got)
        assert (refused.status_code, refused.json()["error"]) == (503, "temporarily_unavailable")
    else:
        page = await user.browser.get(user.callback_url)
        assert (page.status_code, page.headers.get("location")) == (503, None)
    redis.start()
    await step()


HOUR = 3600.0


@pytest.fixture
async def journey(workers: Workers) -> AsyncIterator[Journey]:
    async with Journey(workers) as journey:
        yield journey


async def at_once(
    times: int, ask: Callable[[], Coroutine[Any, Any, httpx2.Response]]
) -> list[httpx2.Response]:
    answers = await asyncio.gather(*(ask() for _ in range(times)))
    return sorted(answers, key=lambda answer: answer.status_code)


async def works_everywhere(journey: Journey, workers: Workers) -> None:
    for _ in workers.processes:
        await journey.whoami()
        await journey.ask_provider()


async def test_code_redeemed_concurrently_gives_one_login(journey, workers):
    await journey.to_code()
    first, *others = await at_once(50, lambda: journey.redeemed(journey.got))
    assert {(other.status_code, other.json()["error"]) for other in others} == {(400, "invalid_grant")}
    journey.take(first)
    await works_everywhere(journey, workers)
    await journey.refresh()


async def test_refresh_token_used_concurrently_keeps_login(journey, workers, openid_provider):
    await journey.to_tokens()
    login, used = openid_provider.latest, journey.held
    answers = await at_once(20, lambda: journey.refreshed(used))
    assert [answer.status_code for answer in answers] == [200] * 20
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    journey.take(answers[0])
    await works_everywhere(journey, workers)
    await journey.refresh()
    assert not login.is_over
    await workers.restart(ahead=HOUR)
    try:
        again = await journey.refreshed(used)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        await journey.be_refused()
    finally:
        await workers.restart()
    assert login.is_over, "the provider has not heard of it"


async def due(journey: Journey, openid_provider: HeldProvider, seconds: float = HOUR) -> None:
    openid_provider.seconds = 1
    await journey.to_tokens()
    openid_provider.seconds = seconds
    await asyncio.sleep(1)


@pytest.fixture
async def due_user(workers: Workers, openid_provider: HeldProvider) -> AsyncIterator[Journey]:
    openid_provider.seconds = 1
    async with Journey(workers) as journey:
        await journey.to_tokens()
        openid_provider.seconds = 3600
        await asyncio.sleep(1)
        yield journey


async def killed_in_the_midst(due_user: Journey, workers: Workers, openid_provider: HeldProvider) -> None:
    calling = asyncio.create_task(due_user.call("at_provider"))
    assert await asyncio.to_thread(openid_provider.is_held.wait, DEFAULT_TIMEOUT)
    killed = workers.turn
    workers.processes[killed].kill()
    with pytest.raises(httpx2.TransportError):
        await calling
    assert await asyncio.to_thread(openid_provider.is_dropped.wait, DEFAULT_TIMEOUT)
    openid_provider.release()
    workers.replace(killed)


@ON_SQLITE
async def test_refresh_of_killed_worker_is_repeated(due_user, workers, openid_provider):
    openid_provider.before.clear()
    await killed_in_the_midst(due_user, workers, openid_provider)
    before = openid_provider.refreshed
    await asyncio.gather(*(due_user.ask_provider() for _ in range(8)))
    assert openid_provider.refreshed == before + 1
    assert not openid_provider.latest.is_over
    await due_user.refresh()
    await due_user.ask_provider()


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


async def test_store_backup_logs_and_responses_have_no_secrets(workers, openid_provider):
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


def stored_seconds(workers: Workers) -> dict[str, float]:
    if workers.redis is not None:
        keys = [key for key in workers.redis.ask("KEYS", "*") if b"/sealed/" in key]
        return {key.decode(): workers.redis.ask("PTTL", key) / 1000 for key in keys}
    with closing(sqlite3.connect(workers.file)) as connection:
        rows = connection.execute("SELECT key, expires FROM stored WHERE key LIKE '%/sealed/%'")
        return {str(key): float(expires) - time.time() for key, expires in rows}


@ON_SQLITE
async def test_unfinished_logins_store_nothing(workers):
    async with Journey(workers) as user:
        await user.register()
        before = stored_seconds(workers).keys()
        for _ in range(MANY):
            await user.register()
            await user.open_page()
            await user.allow()
        assert stored_seconds(workers).keys() == before
