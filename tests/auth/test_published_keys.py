"""Keys that an issuer publishes: found, kept, renewed, and used on while it does not answer."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from mcpkit.auth import Jwt
from mcpkit.auth.issuer_metadata import RETRY
from mcpkit.auth.published_keys import LONGEST, SHORTEST, STALE
from tests.helpers.clock import Clock
from tests.helpers.provider import KEYS, METADATA, OPENID, Provider, providing
from tests.helpers.signed_tokens import NOW
from tests.helpers.taken import HOUR, NEW, OLD, is_taken, token, unavailable
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "place", "asked_before"),
    [
        ("", METADATA, []),
        ("", OPENID, [METADATA]),
        ("/", METADATA, []),
        ("/tenant", METADATA + "/tenant", []),
        ("/tenant", OPENID + "/tenant", [METADATA + "/tenant"]),
        ("/tenant", "/tenant" + OPENID, [METADATA + "/tenant", OPENID + "/tenant"]),
    ],
)
@pytest.mark.parametrize("elsewhere", [404, 403, 200, 500])
async def test_metadata_is_looked_for_in_all_places(
    provider: Provider, path: str, place: str, asked_before: list[str], elsewhere: int
) -> None:
    issuer = provider.url + path
    provider.places, provider.metadata = {place}, {"issuer": issuer}

    def page(request: Request) -> Response | None:
        known = request.url.path in {place, KEYS}
        return None if known else PlainTextResponse("a page", elsewhere)

    provider.instead = page
    jwt = Jwt(issuer, clock=Clock(NOW))

    assert await is_taken(jwt, OLD.token(iss=issuer))
    assert list(provider.asked) == [*asked_before, place, KEYS]


async def test_keys_are_fetched_once(provider: Provider, jwt: Jwt) -> None:
    for _ in range(100):
        assert await is_taken(jwt, token(provider))

    assert provider.asked == {METADATA: 1, KEYS: 1}


async def test_all_that_come_at_first_wait_for_one_fetch(provider: Provider, jwt: Jwt) -> None:
    provider.is_open.clear()
    tasks = [asyncio.create_task(is_taken(jwt, token(provider))) for _ in range(100)]
    await until(provider.is_asked.is_set)
    provider.is_open.set()

    assert all(await asyncio.gather(*tasks))
    assert provider.asked == {METADATA: 1, KEYS: 1}


def test_several_event_loops_share_one_fetch(provider: Provider, clock: Clock) -> None:
    jwt = Jwt(provider.url, clock=clock)
    provider.is_open.clear()
    found: list[bool] = []
    ready = threading.Barrier(9)

    def run() -> None:
        async def main() -> None:
            waiting = asyncio.create_task(is_taken(jwt, token(provider)))
            await asyncio.sleep(0)
            ready.wait(10)
            found.append(await waiting)

        asyncio.run(main())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    ready.wait(10)
    provider.is_open.set()
    for thread in threads:
        thread.join()

    assert found == [True] * 8
    assert provider.asked == {METADATA: 1, KEYS: 1}


def test_an_event_loop_that_ends_in_the_middle_leaves_the_fetch_to_others(
    provider: Provider, clock: Clock
) -> None:
    jwt = Jwt(provider.url, clock=clock)
    provider.is_open.clear()

    async def give_up() -> None:
        waiting = asyncio.create_task(is_taken(jwt, token(provider)))
        await until(provider.is_asked.is_set)
        other.start()
        await asyncio.to_thread(joined.wait, 10)
        waiting.cancel()

    async def go_on() -> None:
        waiting = asyncio.create_task(is_taken(jwt, token(provider)))
        await asyncio.sleep(0)
        joined.set()
        await until(lambda: provider.asked[METADATA] == 2)
        provider.is_open.set()
        found.append(await waiting)

    found: list[bool] = []
    joined = threading.Event()
    other = threading.Thread(target=lambda: asyncio.run(go_on()))
    asyncio.run(give_up())
    other.join()

    assert found == [True]


async def test_who_no_longer_waits_takes_nothing_from_the_others(provider: Provider, jwt: Jwt) -> None:
    provider.is_open.clear()
    first = asyncio.create_task(is_taken(jwt, token(provider)))
    await until(provider.is_asked.is_set)
    second = asyncio.create_task(is_taken(jwt, token(provider)))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    provider.is_open.set()

    assert await second
    assert provider.asked == {METADATA: 1, KEYS: 1}


@pytest.mark.limit("age of keys")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("max-age=600", 600),
        ("max-age=15", SHORTEST),
        ("no-store", SHORTEST),
        ("max-age=99999999", LONGEST),
        ("", HOUR),
    ],
)
async def test_keys_are_renewed_ahead_of_their_time_and_nobody_waits(
    provider: Provider, jwt: Jwt, clock: Clock, header: str, seconds: float
) -> None:
    provider.headers = {"Cache-Control": header}
    assert await is_taken(jwt, token(provider))
    clock.now += seconds * 0.79
    assert await is_taken(jwt, token(provider))
    assert provider.fetches == 1

    clock.now += seconds * 0.02
    provider.is_open.clear()
    provider.publish(NEW)
    assert await is_taken(jwt, token(provider))
    await until(lambda: provider.fetches == 2)
    assert await is_taken(jwt, token(provider))
    provider.is_open.set()
    await until(lambda: not jwt.published.is_fetching)

    assert await is_taken(jwt, token(provider, NEW))
    assert provider.fetches == 2


async def test_keys_that_are_too_old_are_renewed_before_they_are_used(
    provider: Provider, jwt: Jwt, clock: Clock
) -> None:
    assert await is_taken(jwt, token(provider))
    clock.now += HOUR
    provider.publish(NEW)

    assert not await is_taken(jwt, token(provider))
    assert provider.fetches == 3  # and once more for the name that nobody knows


@pytest.mark.limit("age of keys")
async def test_keys_stay_in_use_while_the_provider_is_down_and_not_for_ever(
    provider: Provider, jwt: Jwt, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert await is_taken(jwt, token(provider))
    provider.break_down()
    clock.now += HOUR
    with caplog.at_level(logging.INFO, "mcpkit"):
        assert await is_taken(jwt, token(provider))
        assert provider.fetches == 2
        assert await is_taken(jwt, token(provider))
        assert provider.fetches == 2  # a moment ago it did not answer
        clock.now += STALE - 1
        assert await is_taken(jwt, token(provider))
        await until(lambda: provider.asked[METADATA] == 2 and not jwt.published.is_fetching)
        clock.now += 1 + RETRY

        error = await unavailable(jwt, token(provider))
        assert error.retry_after == 5
        assert "has answered 503" in error.description

        provider.mend()
        clock.now += RETRY
        assert await is_taken(jwt, token(provider))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, "the same is said once"
    assert "those that are there stay in use" in said[0]
    assert said[1].endswith("are there again")


async def test_without_keys_nobody_knows_and_it_comes_back_by_itself(
    provider: Provider, jwt: Jwt, clock: Clock
) -> None:
    provider.break_down()
    errors = await asyncio.gather(*(unavailable(jwt, token(provider)) for _ in range(50)))
    assert {error.retry_after for error in errors} == {5}
    clock.now += 2
    assert (await unavailable(jwt, token(provider))).retry_after == 3
    assert provider.asked == {METADATA: 1, OPENID: 1}

    provider.mend()
    clock.now += 3
    assert await is_taken(jwt, token(provider))


async def test_a_provider_that_is_not_there_or_does_not_answer(clock: Clock) -> None:
    with providing(OLD) as provider:
        provider.is_open.clear()
        error = await unavailable(Jwt(provider.url, timeout=0.1, clock=clock), token(provider))
        assert "has not answered within 0.1 s" in error.description
    error = await unavailable(Jwt(provider.url, clock=clock), token(provider))
    assert "cannot connect to http://127.0.0.1:" in error.description


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"issuer": "https://other.example.com"}, "is of another issuer"),
        ({"issuer": None}, "does not say who the issuer is"),
        ({"jwks_uri": None}, "has no jwks_uri"),
        ({"jwks_uri": "http://id.example.com/keys"}, "not encrypted"),
        ({"jwks_uri": ["/keys"]}, "no URL"),
    ],
)
async def test_metadata_that_is_wrong_is_not_believed(
    provider: Provider, jwt: Jwt, metadata: dict[str, Any], problem: str, clock: Clock
) -> None:
    provider.metadata = metadata
    assert problem in (await unavailable(jwt, token(provider))).description
    assert KEYS not in provider.asked

    provider.metadata = {}
    clock.now += RETRY
    assert await is_taken(jwt, token(provider))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (JSONResponse({}), "no list of keys"),
        (JSONResponse({"keys": {}}), "no list of keys"),
        (JSONResponse({"keys": []}), "no key that could verify"),
        (JSONResponse({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "old"}]}), "no key that could verify"),
        (JSONResponse({"keys": [{}] * 101}), "more than 100 keys"),
        (JSONResponse([]), "no JSON object"),
        (PlainTextResponse("{"), "in one way alone (text/plain)"),
        (RedirectResponse("/other"), "redirects"),
        (Response(status_code=404), "has answered 404"),
        (JSONResponse({"keys": ["x" * 600_000]}), "has sent more than"),
    ],
)
async def test_keys_that_are_wrong_take_no_place_of_those_that_are_there(
    provider: Provider,
    jwt: Jwt,
    clock: Clock,
    answer: Response,
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await is_taken(jwt, token(provider))
    provider.instead = lambda request: answer if request.url.path == KEYS else None
    clock.now += HOUR

    assert await is_taken(jwt, token(provider))
    assert problem in caplog.text
    other = Jwt(provider.url, clock=clock)
    assert problem in (await unavailable(other, token(provider))).description


async def test_where_the_keys_are_may_be_said(provider: Provider, clock: Clock) -> None:
    jwt = Jwt("https://id.example.com", jwks_uri=provider.url + KEYS, clock=clock)

    assert await is_taken(jwt, OLD.token())
    assert provider.asked == {KEYS: 1}


async def test_closing_ends_what_is_being_fetched(provider: Provider, jwt: Jwt) -> None:
    before = asyncio.all_tasks()
    provider.is_open.clear()
    waiting = asyncio.create_task(is_taken(jwt, token(provider)))
    await until(provider.is_asked.is_set)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert asyncio.all_tasks() - before

    await jwt.aclose()
    assert not asyncio.all_tasks() - before
    provider.is_open.set()
    assert await is_taken(jwt, token(provider))
