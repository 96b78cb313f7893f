"""Generated tokens that every verifier must reject without quoting them."""

from __future__ import annotations

import logging
import re
import traceback
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.auth import InvalidTokenError
from mcpkit.auth.jwt import Jwt
from tests.helpers.clock import Clock
from tests.helpers.signed_tokens import AUDIENCE, CANARY, ISSUER, NOW, HostileTokens, Signer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SIGNERS = [Signer("RS256", "one"), Signer("ES256", "two"), Signer("EdDSA", "three"), Signer("PS256", "four")]


KEYS = {"keys": [each.public() for each in SIGNERS]}


FIXED = re.compile(r"(the (token|signature|header|type|scopes)|no key|exp,) [a-zA-Z ,_()]+")


SEED = 20_261_122


JWT = Jwt(ISSUER, keys=KEYS, clock=Clock(NOW))


UNKNOWN_SIGNER = Signer("ES256", "two")


async def rejection(token: str) -> InvalidTokenError | None:
    try:
        await JWT.verify(token, AUDIENCE)
    except InvalidTokenError as error:
        return error
    return None


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
async def test_jwt_generated_hostile_tokens_are_rejected_without_quoting(seed, caplog):
    rejected: Counter[str] = Counter()
    with caplog.at_level(logging.DEBUG):
        for way, token in HostileTokens(SIGNERS).tokens(seed, 1050):
            error = await rejection(token)
            assert error is not None, f"seed {seed}, {way}: {token}"
            assert FIXED.fullmatch(error.description), error.description
            traceback_text = "".join(traceback.format_exception(error))
            pieces = [piece for piece in token.split(".") if len(piece) > 20]
            assert not any(piece in traceback_text for piece in (*pieces, CANARY))
            rejected[way] += 1

    assert len(rejected) == 21
    assert set(rejected.values()) == {50}
    assert not caplog.records


async def test_jwt_base_of_hostile_tokens_is_accepted():
    for signer in SIGNERS:
        assert await JWT.verify(signer.token(HostileTokens(SIGNERS).claims()), AUDIENCE)


@given(st.one_of(st.text(), st.lists(st.text(max_size=40), min_size=3, max_size=3).map(".".join)))
async def test_jwt_any_text_is_rejected(token):
    with pytest.raises(InvalidTokenError):
        await JWT.verify(token, AUDIENCE)


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
async def test_jwt_of_unknown_signer_is_rejected(header, claims):
    with pytest.raises(InvalidTokenError):
        await JWT.verify(UNKNOWN_SIGNER.token(claims, header), AUDIENCE)
