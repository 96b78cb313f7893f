"""Verifiers of static tokens, and several verifiers for one server."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcpkit import Principal, Server
from mcpkit.auth import AccessToken, InvalidTokenError, Jwt, StaticTokens, TokenVerifier
from mcpkit.auth.auth_option import Issuers
from tests.helpers.signed_tokens import AUDIENCE, NOW, Signer
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

TOKEN, HASH = StaticTokens.make()


@each_row(("value", "principal"), [
    ("backup", Principal("backup")),
    (("backup", ["notes:read"]), Principal("backup", {"notes:read"})),
    (Principal("backup", {"a"}, client_id="c"), Principal("backup", {"a"}, client_id="c")),
])  # fmt: skip
async def test_static_tokens_return_configured_principal(value, principal):
    for key in (TOKEN, HASH):
        tokens = StaticTokens({StaticTokens.make()[0]: "other", key: value})
        assert await tokens.verify(TOKEN, AUDIENCE) == AccessToken(principal)
        assert tokens.issuers == ()
        assert TOKEN not in repr(vars(tokens))


@each_row("sent", ["", "x", TOKEN[:-1], TOKEN + "A", TOKEN.swapcase(), HASH, "\ud800", "x" * 100_000])
async def test_static_tokens_unknown_are_rejected(sent):
    with pytest.raises(InvalidTokenError, match="not one of the static tokens"):
        await StaticTokens({TOKEN: "backup"}).verify(sent, AUDIENCE)


WEAK, FORBIDDEN = "fewer than 128 random bits", "a bearer token cannot have"


@each_row(("tokens", "error", "problem"), [
    ({}, ValueError, "has no token"),
    *(({token: "a"}, ValueError, WEAK) for token in (
        "secret", "a" * 64, "0123456789abcdef0123456789abcde", "01234567890123456789012345678901234567",
        TOKEN[:21],
    )),
    *(({token: "a"}, ValueError, FORBIDDEN) for token in ("", TOKEN + "\n", TOKEN + " x", HASH.upper())),
    ({HASH[:-1]: "a"}, ValueError, "64 lower-case hexadecimal digits"),
    ({TOKEN: "a", HASH: "b"}, ValueError, "occurs twice"),
    ({TOKEN: Principal(None)}, ValueError, "has no id"),
    ({TOKEN: ""}, ValueError, "must not be empty"),
    ({TOKEN: 7}, TypeError, "must be a Principal, an id"),
    ({TOKEN: ("a", "b")}, TypeError, "must be a list of strings"),
    ({7: "a"}, TypeError, "must be a string"),
    ([TOKEN], TypeError, "must be a mapping"),
])  # fmt: skip
def test_static_tokens_weak_or_invalid_raise(tokens, error, problem):
    with pytest.raises(error, match=problem) as caught:
        StaticTokens(tokens)

    assert TOKEN not in str(caught.value)


def test_static_tokens_start_logs_warning_and_challenge_has_no_metadata(caplog):
    app = Server("notes", auth=StaticTokens({TOKEN: "backup"})).asgi(public_url=AUDIENCE)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with caplog.at_level(logging.WARNING, "mcpkit"), TestClient(app, "https://mcp.example.com") as http:
        known, unknown = (
            http.post(
                "/mcp", json=ping, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
            )
            for token in (TOKEN, "x")
        )
    # A request outside of a session is no valid one, but its token is accepted.
    assert (known.status_code, unknown.status_code) == (400, 401)
    assert "resource_metadata" not in unknown.headers["www-authenticate"]
    assert (
        "notes accepts 1 static token at https://mcp.example.com/mcp: clients cannot log in there"
        " and need a token from the operator" in caplog.messages
    )


ONE, TWO = "https://one.example.com", "https://two.example.com"


SIGNERS = {ONE: Signer("ES256", "key"), TWO: Signer("ES256", "key")}
IN_HOUSE = Signer("ES256").token(iss="the house")


def jwt_for(issuer: str) -> Jwt:
    return Jwt(issuer, keys=SIGNERS[issuer].public(), clock=Clock(NOW))


class InHouse(TokenVerifier):
    async def verify(self, token: str, audience: str) -> AccessToken:
        if token not in {"opaque", IN_HOUSE}:
            raise InvalidTokenError("none of the house")
        return AccessToken(Principal("house"))


async def principal_or_error(issuers: TokenVerifier, token: str) -> Any:
    try:
        return (await issuers.verify(token, AUDIENCE)).principal.id
    except InvalidTokenError as error:
        return error.description


async def test_issuers_route_token_by_iss():
    issuers = Issuers([jwt_for(ONE), jwt_for(TWO), StaticTokens({TOKEN: "backup"}), InHouse()])
    assert issuers.issuers == (ONE, TWO)
    for token, principal in (
        (SIGNERS[ONE].token(iss=ONE), f"{ONE}#sub=ada"),
        (SIGNERS[TWO].token(iss=TWO), f"{TWO}#sub=ada"),
        (TOKEN, "backup"),
        ("opaque", "house"),
        (IN_HOUSE, "house"),
    ):
        assert await principal_or_error(issuers, token) == principal


async def test_issuers_send_static_token_to_no_other_verifier():
    sent: list[str] = []

    class Remote(InHouse):
        issuers = (ONE,)

        async def verify(self, token: str, audience: str) -> AccessToken:
            sent.append(token)
            return await super().verify(token, audience)

    issuers = Issuers([Remote(), StaticTokens({TOKEN: "backup"})])
    assert await principal_or_error(issuers, TOKEN) == "backup"
    assert sent == []
    assert await principal_or_error(issuers, "opaque") == "house"
    assert sent == ["opaque"]


UNKNOWN = "is not trusted by this server"


@each_row(("token", "problem"), [
    (SIGNERS[ONE].token(iss=TWO), "no key of the issuer verifies"),
    (SIGNERS[ONE].token(iss="https://three.example.com"), UNKNOWN),
    (SIGNERS[ONE].token(iss=[ONE]), UNKNOWN),
    *((token, UNKNOWN) for token in ("opaque", "a.b.c", "\ud800.\u00e9.x")),
])  # fmt: skip
async def test_issuers_unknown_issuer_is_rejected(token, problem):
    assert problem in await principal_or_error(Issuers([jwt_for(ONE), jwt_for(TWO)]), token)
