"""Several verifiers as one."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Principal
from mcpkit.auth import Grant, Introspection, InvalidTokenError, Jwt, StaticTokens, TokenVerifier
from mcpkit.auth.issuers import Issuers
from tests.helpers.clock import Clock
from tests.helpers.provider import Provider
from tests.helpers.signed_tokens import AUDIENCE, NOW, Signer

pytestmark = pytest.mark.anyio

ONE, TWO = "https://one.example.com", "https://two.example.com"
SIGNERS = {ONE: Signer("ES256", "key"), TWO: Signer("ES256", "key")}
TOKEN, _ = StaticTokens.make()


def jwt(issuer: str) -> Jwt:
    return Jwt(issuer, keys=SIGNERS[issuer].public(), clock=Clock(NOW))


class InHouse(TokenVerifier):
    async def verify(self, token: str, audience: str) -> Grant:
        if token not in {"opaque", IN_HOUSE}:
            raise InvalidTokenError("none of the house")
        return Grant(Principal("house"))


IN_HOUSE = Signer("ES256").token(iss="the house")


async def whose(issuers: TokenVerifier, token: str) -> Any:
    try:
        return (await issuers.verify(token, AUDIENCE)).principal.id
    except InvalidTokenError as error:
        return error.description


async def test_each_token_goes_to_the_one_whose_issuer_it_names() -> None:
    issuers = Issuers([jwt(ONE), jwt(TWO), StaticTokens({TOKEN: "backup"}), InHouse()])

    assert issuers.issuers == (ONE, TWO)
    assert await whose(issuers, SIGNERS[ONE].token(iss=ONE)) == f"{ONE}#sub=ada"
    assert await whose(issuers, SIGNERS[TWO].token(iss=TWO)) == f"{TWO}#sub=ada"
    assert await whose(issuers, TOKEN) == "backup"
    assert await whose(issuers, "opaque") == "house"
    assert await whose(issuers, IN_HOUSE) == "house"


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (SIGNERS[ONE].token(iss=TWO), "by none of the keys"),
        (SIGNERS[ONE].token(iss="https://three.example.com"), "of no issuer that is trusted"),
        (SIGNERS[ONE].token(iss=[ONE]), "of no issuer that is trusted"),
        ("opaque", "of no issuer that is trusted"),
        ("a.b.c", "of no issuer that is trusted"),
        ("\ud800.\u00e9.x", "of no issuer that is trusted"),
    ],
)
async def test_what_belongs_to_none_is_refused(token: str, problem: str) -> None:
    assert problem in await whose(Issuers([jwt(ONE), jwt(TWO)]), token)


async def test_a_token_of_the_author_is_shown_to_nobody_else(provider: Provider) -> None:
    asking = Introspection(provider.url, client_id="a", client_secret="b", clock=Clock(NOW))
    issuers = Issuers([asking, jwt(ONE), StaticTokens({TOKEN: "backup"})])
    assert await whose(issuers, TOKEN) == "backup"
    assert await whose(issuers, SIGNERS[ONE].token(iss="https://three.example.com"))
    assert not provider.asked_about

    provider.tokens["opaque"] = {"active": True, "sub": "ada", "aud": AUDIENCE}
    assert await whose(issuers, "opaque") == f"{provider.url}#sub=ada"
    assert "not active" in await whose(issuers, "another")
    await issuers.aclose()


@pytest.mark.parametrize(
    ("verifiers", "problem"),
    [([], "verifies nothing"), ([jwt(ONE), jwt(TWO), jwt(ONE)], f"for one issuer, {ONE},")],
)
def test_two_for_one_issuer_are_refused(verifiers: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Issuers(verifiers)
