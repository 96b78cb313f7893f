"""Hostile answers of a provider, and redirects to where the user did not agree."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.auth.proxy.world import (
    CLIENT,
    EDITOR,
    ORIGIN,
    PROVIDER,
    World,
    answer,
    consented,
    form_of,
    logged_in,
)
from tests.helpers.signed_tokens import Signer, encoded
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

Change = Callable[[World], None]


def claims(**changes: Any) -> Change:
    return lambda world: world.provider.claims.update(changes)


def signed(sign: Callable[[World, dict[str, Any]], str]) -> Change:
    def change(world: World) -> None:
        world.provider.signed = lambda claims_: sign(world, claims_)

    return change


def compact(header: dict[str, Any], claims_: dict[str, Any], signature: bytes) -> str:
    parts = [encoded(json.dumps(each).encode()) for each in (header, claims_)]
    return b".".join([*parts, encoded(signature)]).decode()


def by_hmac(secret: Callable[[World], bytes]) -> Change:
    def sign(world: World, claims_: dict[str, Any]) -> str:
        header = {"alg": "HS256", "kid": world.provider.signer.key_id, "typ": "JWT"}
        parts = b".".join(encoded(json.dumps(each).encode()) for each in (header, claims_))
        return (parts + b"." + encoded(hmac.digest(secret(world), parts, "sha256"))).decode()

    return signed(sign)


NOW = time.time()


ID_TOKENS: dict[str, Change] = {
    "another client's": claims(aud="another-client"),
    "several clients', and ours is not whom it was issued to": claims(aud=[CLIENT[0], "other"], azp="other"),
    "nobody's": claims(aud=None),
    "another nonce": claims(nonce="another"),
    "no nonce": claims(nonce=None),
    "a nonce that is no text": claims(nonce=["x"]),
    "a nonce that cannot be encoded": claims(nonce="\ud800"),
    "a hash that cannot be encoded": claims(at_hash="\ud800"),
    "an empty nonce": claims(nonce=""),
    "another issuer": claims(iss="https://evil.example"),
    "an issuer with a slash": claims(iss=f"{PROVIDER}/"),
    "no issuer": claims(iss=None),
    "expired": claims(exp=NOW - 3600),
    "no expiry": claims(exp=None),
    "expiry as a text": claims(exp="9999999999"),
    "no subject": claims(sub=None),
    "an empty subject": claims(sub=""),
    "a number for a subject": claims(sub=7),
    "the access token of another": claims(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "alg none": signed(lambda world, claims_: compact({"alg": "none"}, claims_, b"")),
    "alg None": signed(lambda world, claims_: compact({"alg": "None", "kid": "one"}, claims_, b"")),
    "no signature": signed(
        lambda world, claims_: world.provider.signer.token(claims_).rpartition(".")[0] + "."
    ),
    "HS256 with the client's secret": by_hmac(lambda _: CLIENT[1].encode()),
    "HS256 with the public key": by_hmac(lambda world: world.provider.signer.key.as_pem(private=False)),
    "HS256 with an empty key": by_hmac(lambda _: b""),
    "a stranger's key": signed(lambda world, claims_: Signer("ES256").token(claims_)),
    "a key that it brings along": signed(
        lambda world, claims_: (other := Signer("ES256")).token(claims_, {"jwk": other.public(), "kid": None})
    ),
    "a key elsewhere": signed(
        lambda world, claims_: Signer("ES256").token(claims_, {"jku": "https://evil.example/keys"})
    ),
    "an access token": signed(lambda world, claims_: world.provider.signer.token(claims_, {"typ": "at+jwt"})),
    "a logout token": signed(
        lambda world, claims_: world.provider.signer.token(claims_, {"typ": "logout+jwt"})
    ),
    "a critical header": signed(
        lambda world, claims_: world.provider.signer.token(claims_, {"crit": ["x"], "x": 1, "typ": "JWT"})
    ),
    "no token": signed(lambda world, claims_: "no token"),
}


async def log_in_as_victim(world: World) -> str | None:
    """Log the attacker in, whose provider says that they are the victim."""
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        return await world.holds(login, await logged_in(world, browser, login))


@each_row("name", ID_TOKENS)
async def test_hostile_id_token_gives_no_login(name, caplog):
    caplog.set_level(logging.DEBUG)
    world = World(openid=True)
    assert await log_in_as_victim(world) == "ada"  # the control: the same without the change
    ID_TOKENS[name](world)
    assert await log_in_as_victim(world) is None
    claims_ = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("mcpkit"))
    for secret in (*world.provider.tokens, CLIENT[1]):
        assert secret not in claims_


@pytest.mark.parametrize(
    "change", [{"sub": "mallory"}, {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": "ADA"}, {"sub": "ada "}]
)
async def test_userinfo_of_another_user_is_ignored(change):
    """The subject is that of the ID token: whatever userinfo says, nobody becomes log_in_as_victim else by it."""
    world = World(openid=True)
    world.provider.userinfo = change
    assert await log_in_as_victim(world) in {None, "ada"}


METADATA: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://evil.example"},
    "an issuer with a slash": {"issuer": f"{PROVIDER}/"},
    "no issuer": {"issuer": None},
    "a token endpoint that is not encrypted": {"token_endpoint": "http://id.example.net/token"},
    "an authorization endpoint that is not encrypted": {
        "authorization_endpoint": "http://id.example.net/authorize"
    },
    "an authorization endpoint that runs": {"authorization_endpoint": "javascript:alert(1)//"},
    "an authorization endpoint with a user": {"authorization_endpoint": "https://x@id.example.net/authorize"},
    "keys that are not encrypted": {"jwks_uri": "http://id.example.net/keys"},
    "a token endpoint that is a number": {"token_endpoint": 7},
    "no token endpoint": {"token_endpoint": None},
    "no keys": {"jwks_uri": None},
}


@each_row("name", METADATA)
async def test_hostile_metadata_is_not_used(name):
    world = World(openid=True)
    world.provider.metadata = METADATA[name]
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        sent = await consented(browser, login)
        ended = await browser.follow(sent, until=EDITOR)
    assert answer(ended).get("error") == "temporarily_unavailable"
    assert answer(ended)["iss"] == ORIGIN
    # The code, the verifier and the secret have not left; keys are needed for what they bring alone.
    assert "keys" in name or not world.provider.to("/token")
    secret = base64.b64encode(CLIENT[1].encode()).decode()
    assert secret not in str(ended.headers)


async def test_redirect_of_token_endpoint_is_not_followed():
    """Neither the code nor the secret goes to where it points."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import Route

    world = World()
    received: list[bytes] = []

    async def elsewhere(request: Request) -> Response:
        received.append(await request.body())
        return JSONResponse({"access_token": "x", "token_type": "Bearer"})

    async def redirecting(request: Request) -> Response:
        return RedirectResponse("https://evil.example/token", 307)

    world.hosts["evil.example"] = Starlette(routes=[Route("/token", elsewhere, methods=["POST", "GET"])])
    world.provider.app.router.routes.insert(0, Route("/token", redirecting, methods=["POST"]))
    assert await log_in_as_victim(world) is None
    assert received == []


@pytest.fixture
def world() -> World:
    return World()


STATES = [
    "x\r\nSet-Cookie: stolen=1", "x\nLocation: https://evil.example", "x\x00y", "<script>alert(1)</script>",
    "'\"><img src=x>", "x&code=attackers&iss=https://evil.example", "x#code=attackers",
    "%0d%0aSet-Cookie:%20stolen=1", "\u2028\u202e\U0001f600", "é",
]  # fmt: skip


@each_row("state", STATES)
async def test_hostile_state_is_returned_unchanged(state):
    world = World()
    for uri in (EDITOR, f"{EDITOR}?a=1"):
        login = await world.client(uri, state=state)
        async with world.browser("ada") as browser:
            sent = await consented(browser, login)
            ended = await browser.follow(sent, until=EDITOR)
            denied = await browser.post(
                "/authorize",
                data=form_of(await browser.get("/authorize", params=login.query), "allow")
                | {"answer": "deny"},
                headers={"Origin": ORIGIN},
            )
        for response in (ended, denied):
            location = response.headers["location"]
            assert location.isascii()
            assert location.isprintable()
            params = answer(response)
            assert params["state"] == state
            assert params["iss"] == ORIGIN
            assert location.count("code=") + location.count("error=") == 1
            assert "stolen" not in str(response.headers.get_list("set-cookie"))


PROVIDER_ERRORS = [
    ("access_denied", "no"),
    ("server_error\r\nSet-Cookie: a=b", "x\r\nSet-Cookie: a=b"),
    ("<script>", "<script>alert(1)</script>"),
    ("x" * 5000, "y" * 20000),
    ("access_denied&code=attackers", "&code=attackers"),
    ("é\u202e", "\u202e\x00"),
    ("", ""),
]


@each_row(("error", "description"), PROVIDER_ERRORS)
async def test_provider_error_text_is_sanitized(error, description):
    world = World()
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        state = answer(await consented(browser, login))["state"]
        query = {"error": error, "error_description": description, "state": state}
        ended = await browser.get("/callback", params=query)
    params = answer(ended)
    location = ended.headers["location"]
    assert location.startswith(f"{EDITOR}?")
    assert location.isascii()
    assert location.isprintable()
    assert len(location) < 2000
    assert set(params) == {"error", "error_description", "iss", "state"}
    assert params["error"] in {"access_denied", "server_error", "temporarily_unavailable"}
    assert (params["iss"], params["state"]) == (ORIGIN, login.query["state"])
    assert "<" not in params["error_description"]
    for cookie in ended.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-mcpkit-login-")
