"""Verifiers of static tokens, and several verifiers for one server."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcpkit import Principal, Server
from mcpkit.auth import AccessToken, InvalidTokenError, Jwt, StaticTokens, TokenVerifier
from mcpkit.auth.issuers import Issuers
from tests.helpers.clock import Clock
from tests.helpers.signed_tokens import AUDIENCE, NOW, Signer
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

TOKEN, HASH = StaticTokens.make()


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


COMMAND = re.compile(r"python (-c .*)")


@pytest.mark.parametrize("key", [TOKEN, HASH], ids=["token", "digest"])
@pytest.mark.parametrize(
    ("value", "principal"),
    [
        ("backup", Principal("backup")),
        (("backup", ["notes:read"]), Principal("backup", {"notes:read"})),
        (Principal("backup", {"a"}, client_id="c"), Principal("backup", {"a"}, client_id="c")),
    ],
)
async def test_static_tokens_return_configured_principal(key, value, principal):
    tokens = StaticTokens({StaticTokens.make()[0]: "other", key: value})

    grant = await tokens.verify(TOKEN, AUDIENCE)

    assert grant == (principal, None, None, None)
    assert tokens.issuers == ()
    assert TOKEN not in repr(vars(tokens))


@each_row("sent", ["", "x", TOKEN[:-1], TOKEN + "A", TOKEN.swapcase(), HASH, "\ud800", "x" * 100_000])
async def test_static_tokens_unknown_are_rejected(sent):
    with pytest.raises(InvalidTokenError, match="not one of the static tokens"):
        await StaticTokens({TOKEN: "backup"}).verify(sent, AUDIENCE)


@each_row(
    ("tokens", "error", "problem"),
    [
        ({}, ValueError, "has no token"),
        ({"secret": "a"}, ValueError, "fewer than 128 random bits"),
        ({"a" * 64: "a"}, ValueError, "fewer than 128 random bits"),
        ({"0123456789abcdef0123456789abcde": "a"}, ValueError, "fewer than 128 random bits"),
        ({"01234567890123456789012345678901234567": "a"}, ValueError, "fewer than 128 random bits"),
        ({TOKEN[:21]: "a"}, ValueError, "fewer than 128 random bits"),
        ({"": "a"}, ValueError, "a bearer token cannot have"),
        ({TOKEN + "\n": "a"}, ValueError, "a bearer token cannot have"),
        ({TOKEN + " x": "a"}, ValueError, "a bearer token cannot have"),
        ({HASH.upper(): "a"}, ValueError, "a bearer token cannot have"),
        ({HASH[:-1]: "a"}, ValueError, "64 lower-case hexadecimal digits"),
        ({TOKEN: "a", HASH: "b"}, ValueError, "occurs twice"),
        ({TOKEN: Principal(None)}, ValueError, "has no id"),
        ({TOKEN: ""}, ValueError, "must not be empty"),
        ({TOKEN: 7}, TypeError, "must be a Principal, an id"),
        ({TOKEN: ("a", "b")}, TypeError, "must be a list of strings"),
        ({7: "a"}, TypeError, "must be a string"),
        ([TOKEN], TypeError, "must be a mapping"),
    ],
)
def test_static_tokens_weak_or_invalid_raise(tokens, error, problem):
    with pytest.raises(error, match=problem) as caught:
        StaticTokens(tokens)

    assert TOKEN not in str(caught.value)


def test_static_tokens_start_logs_warning_and_challenge_has_no_metadata(caplog):
    server = Server("notes", auth=StaticTokens({TOKEN: "backup"}))
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    with (
        caplog.at_level(logging.WARNING, "mcpkit"),
        TestClient(server.asgi(public_url=AUDIENCE), "https://mcp.example.com") as http,
    ):
        known = http.post("/mcp", json=PING, headers=headers)
        unknown = http.post("/mcp", json=PING, headers={**headers, "Authorization": "Bearer x"})

    assert (known.status_code, unknown.status_code) == (400, 401)  # a ping outside of a session, and nobody's
    assert "resource_metadata" not in unknown.headers["www-authenticate"]
    assert (
        "notes accepts 1 static token at https://mcp.example.com/mcp: clients cannot log in there"
        " and need a token from the operator" in caplog.messages
    )


ONE, TWO = "https://one.example.com", "https://two.example.com"


SIGNERS = {ONE: Signer("ES256", "key"), TWO: Signer("ES256", "key")}


STATIC, _ = StaticTokens.make()


def jwt_for(issuer: str) -> Jwt:
    return Jwt(issuer, keys=SIGNERS[issuer].public(), clock=Clock(NOW))


class InHouse(TokenVerifier):
    async def verify(self, token: str, audience: str) -> AccessToken:
        if token not in {"opaque", IN_HOUSE}:
            raise InvalidTokenError("none of the house")
        return AccessToken(Principal("house"))


IN_HOUSE = Signer("ES256").token(iss="the house")


async def principal_or_error(issuers: TokenVerifier, token: str) -> Any:
    try:
        return (await issuers.verify(token, AUDIENCE)).principal.id
    except InvalidTokenError as error:
        return error.description


async def test_issuers_route_token_by_iss():
    issuers = Issuers([jwt_for(ONE), jwt_for(TWO), StaticTokens({STATIC: "backup"}), InHouse()])

    assert issuers.issuers == (ONE, TWO)
    assert await principal_or_error(issuers, SIGNERS[ONE].token(iss=ONE)) == f"{ONE}#sub=ada"
    assert await principal_or_error(issuers, SIGNERS[TWO].token(iss=TWO)) == f"{TWO}#sub=ada"
    assert await principal_or_error(issuers, STATIC) == "backup"
    assert await principal_or_error(issuers, "opaque") == "house"
    assert await principal_or_error(issuers, IN_HOUSE) == "house"


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (SIGNERS[ONE].token(iss=TWO), "no key of the issuer verifies"),
        (SIGNERS[ONE].token(iss="https://three.example.com"), "is not trusted by this server"),
        (SIGNERS[ONE].token(iss=[ONE]), "is not trusted by this server"),
        ("opaque", "is not trusted by this server"),
        ("a.b.c", "is not trusted by this server"),
        ("\ud800.\u00e9.x", "is not trusted by this server"),
    ],
    ids=["foreign key", "unknown issuer", "list of issuers", "opaque", "no JWT", "not ASCII"],
)
async def test_issuers_unknown_issuer_is_rejected(token, problem):
    assert problem in await principal_or_error(Issuers([jwt_for(ONE), jwt_for(TWO)]), token)
