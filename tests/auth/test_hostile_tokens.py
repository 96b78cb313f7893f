"""Tokens that are none, by the thousand: each is refused, in words that are none of its."""

from __future__ import annotations

import logging
import re
import traceback
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.auth import InvalidTokenError
from mcpkit.auth.jwt import Jwt
from tests.helpers.clock import Clock
from tests.helpers.hostile_tokens import CANARY, Hostile
from tests.helpers.signed_tokens import AUDIENCE, ISSUER, NOW, Signer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SIGNERS = [Signer("RS256", "one"), Signer("ES256", "two"), Signer("EdDSA", "three"), Signer("PS256", "four")]
KEYS = {"keys": [each.public() for each in SIGNERS]}
FIXED = re.compile(r"the (token|signature|header|times|scopes) [a-zA-Z ,_()]+")
SEED = 20_261_122


JWT = Jwt(ISSUER, keys=KEYS, clock=Clock(NOW))
STRANGER = Signer("ES256", "two")


async def refusal(token: str) -> InvalidTokenError | None:
    try:
        await JWT.verify(token, AUDIENCE)
    except InvalidTokenError as error:
        return error
    return None


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
async def test_thousands_of_them_are_refused_and_nothing_of_them_is_said(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    refused: Counter[str] = Counter()
    with caplog.at_level(logging.DEBUG):
        for way, token in Hostile(SIGNERS).tokens(seed, 1050):
            error = await refusal(token)
            assert error is not None, f"seed {seed}, {way}: {token}"
            assert FIXED.fullmatch(error.description), error.description
            told = "".join(traceback.format_exception(error))
            pieces = [piece for piece in token.split(".") if len(piece) > 20]
            assert not any(piece in told for piece in (*pieces, CANARY))
            refused[way] += 1

    assert len(refused) == 21
    assert set(refused.values()) == {50}
    assert not caplog.records


async def test_what_they_are_made_of_is_good() -> None:
    for signer in SIGNERS:
        assert await JWT.verify(signer.token(Hostile(SIGNERS).claims()), AUDIENCE)


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), st.lists(st.text(max_size=40), min_size=3, max_size=3).map(".".join)))
async def test_any_text_is_refused(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        await JWT.verify(token, AUDIENCE)


@settings(deadline=None, max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "x"]),
        st.from_type(type(None)) | st.text() | st.integers() | st.lists(st.text()),
    ),
    st.dictionaries(
        st.sampled_from(["iss", "sub", "aud", "exp", "nbf", "iat", "scope", "scp", "client_id", "azp", "x"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.integers()
            | st.text()
            | st.sampled_from([ISSUER, AUDIENCE, 4_000_000_000]),
            lambda values: st.lists(values) | st.dictionaries(st.text(), values),
            max_leaves=5,
        ),
    ),
)
async def test_a_stranger_may_say_anything_and_is_refused(
    header: dict[str, object], claims: dict[str, object]
) -> None:
    with pytest.raises(InvalidTokenError):
        await JWT.verify(STRANGER.token(claims, header), AUDIENCE)
