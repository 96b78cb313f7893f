"""Keys that change, and tokens that name keys which nobody knows."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from mcpkit.auth import InvalidTokenError, Jwt
from mcpkit.auth.issuer_metadata import RETRY
from mcpkit.auth.jwt import COOLDOWN
from tests.helpers.clock import Clock
from tests.helpers.provider import KEYS, Provider
from tests.helpers.signed_tokens import AUDIENCE, Signer
from tests.helpers.taken import HOUR, NEW, NEWEST, OLD, is_taken, token, unavailable

pytestmark = pytest.mark.anyio


async def test_a_key_is_changed_and_no_token_is_lost(provider: Provider, jwt: Jwt) -> None:
    assert await is_taken(jwt, token(provider))
    for signer in (NEW, NEWEST, OLD, NEW):  # each within the cooldown
        provider.publish(signer)
        assert all(await asyncio.gather(*(is_taken(jwt, token(provider, signer)) for _ in range(20))))

    assert provider.fetches == 5


async def test_a_key_without_a_name_is_changed(provider: Provider, jwt: Jwt) -> None:
    assert await is_taken(jwt, token(provider, header={"kid": None}))
    provider.keys = {"keys": [NEW.public(kid=None)]}

    assert await is_taken(jwt, token(provider, NEW, header={"kid": None}))
    assert not await is_taken(jwt, token(provider, NEWEST, header={"kid": None}))


@pytest.mark.limit("fetches for unknown keys")
async def test_a_flood_of_names_that_nobody_knows_asks_once_in_the_cooldown(
    provider: Provider, jwt: Jwt, clock: Clock
) -> None:
    assert await is_taken(jwt, token(provider))
    for fetches in (2, 3):
        flood = [token(provider, header={"kid": f"unknown {number}"}) for number in range(300)]
        assert not any(await asyncio.gather(*(is_taken(jwt, each) for each in flood)))
        assert not any([await is_taken(jwt, each) for each in flood])
        assert await is_taken(jwt, token(provider))
        assert provider.fetches == fetches
        clock.now += COOLDOWN

    provider.publish(NEW)
    assert await is_taken(jwt, token(provider, NEW))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"iss": "https://other.example.com"},
        {"aud": "other"},
        {"header": {"typ": "other"}},
        {"header": {"alg": "HS256"}},
    ],
)
async def test_for_a_token_that_is_none_anyway_nobody_is_asked(
    provider: Provider, jwt: Jwt, changes: dict[str, Any]
) -> None:
    told = {"iss": provider.url, **changes}
    with pytest.raises(InvalidTokenError):
        await jwt.verify(NEW.token(**told), AUDIENCE)

    assert not provider.asked


async def test_a_name_that_is_known_with_a_signature_that_is_not_asks_nobody(
    provider: Provider, jwt: Jwt
) -> None:
    assert await is_taken(jwt, token(provider))
    assert not await is_taken(jwt, token(provider, NEW, header={"kid": "old"}))
    assert provider.fetches == 1


async def test_a_name_that_nobody_knows_is_not_refused_while_the_provider_is_down(
    provider: Provider, jwt: Jwt, clock: Clock
) -> None:
    assert await is_taken(jwt, token(provider))
    provider.break_down()
    for _ in range(20):
        await unavailable(jwt, token(provider, NEW))
    assert provider.fetches == 2
    assert await is_taken(jwt, token(provider))

    provider.publish(NEW)
    provider.mend()
    clock.now += RETRY
    assert await is_taken(jwt, token(provider, NEW))


async def test_keys_that_have_moved_are_found_again(provider: Provider, jwt: Jwt, clock: Clock) -> None:
    assert await is_taken(jwt, token(provider))
    provider.instead = lambda request: Response(status_code=404) if request.url.path == KEYS else None
    clock.now += HOUR
    assert await is_taken(jwt, token(provider))

    provider.metadata = {"jwks_uri": provider.url + "/moved"}
    provider.instead = lambda request: (
        JSONResponse({"keys": [NEW.public()]}) if request.url.path == "/moved" else None
    )
    clock.now += RETRY
    assert await is_taken(jwt, token(provider, NEW))


@pytest.mark.slow
def test_keys_change_under_load_in_several_event_loops(provider: Provider) -> None:
    """Each token is signed by the key of the moment, which is published as it is taken into use, and not before."""
    jwt = Jwt(provider.url)
    signers = [Signer("ES256", f"key {number}") for number in range(12)]
    current = [(0, signers[0])]
    done = [-1] * 4
    provider.publish(signers[0])
    is_over = threading.Event()
    counts: list[int] = []

    def run(number: int) -> None:
        async def main() -> int:
            count = 0
            while not is_over.is_set():
                turn, signer = current[0]
                assert await is_taken(jwt, signer.token(iss=provider.url, exp=4_000_000_000, iat=None))
                count += current[0][0] == turn
                done[number] = turn
            return count

        counts.append(asyncio.run(main()))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for turn, (older, newer) in enumerate(pairwise(signers), 1):
        provider.publish(older, newer)  # a token of the older key may still be on its way
        current[0] = (turn, newer)
        deadline = time.monotonic() + 30
        while any(each < turn for each in done):
            assert time.monotonic() < deadline, "a token was lost"
    is_over.set()
    for thread in threads:
        thread.join()

    assert len(counts) == 4
    assert sum(counts) >= 4
    assert 1 < provider.fetches <= len(signers)
