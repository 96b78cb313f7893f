"""A provider, or somebody between, that answers with what is not the user's: nobody is logged in by it."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.signed_tokens import Signer, encoded
from tests.helpers.two_browsers import CLIENT, EDITOR, ORIGIN, PROVIDER, World, answer, consented, logged_in

pytestmark = pytest.mark.anyio

Change = Callable[[World], None]


def claims(**changes: Any) -> Change:
    return lambda world: world.provider.claims.update(changes)


def signed(sign: Callable[[World, dict[str, Any]], str]) -> Change:
    def change(world: World) -> None:
        world.provider.signed = lambda told: sign(world, told)

    return change


def compact(header: dict[str, Any], told: dict[str, Any], signature: bytes) -> str:
    parts = [encoded(json.dumps(each).encode()) for each in (header, told)]
    return b".".join([*parts, encoded(signature)]).decode()


def by_hmac(secret: Callable[[World], bytes]) -> Change:
    def sign(world: World, told: dict[str, Any]) -> str:
        header = {"alg": "HS256", "kid": world.provider.signer.key_id, "typ": "JWT"}
        parts = b".".join(encoded(json.dumps(each).encode()) for each in (header, told))
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
    "alg none": signed(lambda world, told: compact({"alg": "none"}, told, b"")),
    "alg None": signed(lambda world, told: compact({"alg": "None", "kid": "one"}, told, b"")),
    "no signature": signed(lambda world, told: world.provider.signer.token(told).rpartition(".")[0] + "."),
    "HS256 with the client's secret": by_hmac(lambda _: CLIENT[1].encode()),
    "HS256 with the public key": by_hmac(lambda world: world.provider.signer.key.as_pem(private=False)),
    "HS256 with an empty key": by_hmac(lambda _: b""),
    "a stranger's key": signed(lambda world, told: Signer("ES256").token(told)),
    "a key that it brings along": signed(
        lambda world, told: (other := Signer("ES256")).token(told, {"jwk": other.public(), "kid": None})
    ),
    "a key elsewhere": signed(
        lambda world, told: Signer("ES256").token(told, {"jku": "https://evil.example/keys"})
    ),
    "an access token": signed(lambda world, told: world.provider.signer.token(told, {"typ": "at+jwt"})),
    "a logout token": signed(lambda world, told: world.provider.signer.token(told, {"typ": "logout+jwt"})),
    "a critical header": signed(
        lambda world, told: world.provider.signer.token(told, {"crit": ["x"], "x": 1, "typ": "JWT"})
    ),
    "no token": signed(lambda world, told: "no token"),
}


async def somebody(world: World) -> str | None:
    """Log the attacker in, whose provider says that they are the victim."""
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        return await world.holds(login, await logged_in(world, browser, login))


@pytest.mark.parametrize("name", ID_TOKENS)
async def test_an_id_token_that_is_not_for_this_login_logs_nobody_in(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world = World(openid=True)
    assert await somebody(world) == "ada"  # the control: the same without the change
    ID_TOKENS[name](world)
    assert await somebody(world) is None
    told = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("mcpkit"))
    for secret in (*world.provider.tokens, CLIENT[1]):
        assert secret not in told


async def test_no_id_token_logs_nobody_in() -> None:
    world = World(openid=True)
    world.provider.answer = {"id_token": None}
    assert await somebody(world) is None


@pytest.mark.parametrize(
    "change", [{"sub": "mallory"}, {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": "ADA"}, {"sub": "ada "}]
)
async def test_what_is_said_of_another_user_is_not_believed(change: dict[str, Any]) -> None:
    """The subject is that of the ID token: whatever userinfo says, nobody becomes somebody else by it."""
    world = World(openid=True)
    world.provider.userinfo = change
    assert await somebody(world) in {None, "ada"}


@pytest.mark.parametrize("value", [None, "", [], {}, True, "x" * 100_000, "a\x00b", float(10**30)])
async def test_a_provider_without_id_tokens_names_a_user_or_there_is_none(value: Any) -> None:
    world = World()
    world.provider.userinfo = {"sub": value}
    assert await somebody(world) is None


@pytest.mark.parametrize(
    "change",
    [
        {"access_token": None},
        {"access_token": ""},
        {"access_token": 7},
        {"access_token": "with a space"},
        {"access_token": "x\r\nX-Y: z"},
        {"access_token": "x" * 200_000},
        {"token_type": "DPoP"},
        {"token_type": 7},
        {"expires_in": "soon"},
        {"expires_in": -1},
        {"expires_in": True},
        {"expires_in": 1e400},
        {"refresh_token": ["x"]},
        {"scope": 7},
        {"error": "invalid_grant"},
        {"error": {"a": "b"}},
    ],
)
@pytest.mark.parametrize("openid", [False, True])
async def test_an_answer_that_is_none_of_tokens_logs_nobody_in_and_breaks_nothing(
    change: dict[str, Any], openid: bool
) -> None:
    world = World(openid=openid)
    world.provider.answer = change
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        ended = await logged_in(world, browser, login)
    said = answer(ended)
    assert ended.headers["location"].startswith(EDITOR)
    assert set(said) == {"error", "error_description", "iss", "state"}
    assert said["error"] in {"server_error", "temporarily_unavailable", "access_denied"}


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


@pytest.mark.parametrize("name", METADATA)
async def test_metadata_of_somebody_else_or_without_encryption_is_not_used(name: str) -> None:
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


async def test_an_answer_of_another_issuer_is_none_of_the_providers() -> None:
    """Mix-up at the provider's leg (RFC 9207): where the provider says who it is, nobody else's code is redeemed."""
    for said, user in (
        (PROVIDER, "ada"),
        ("https://evil.example", None),
        (f"{PROVIDER}/", None),
        (None, None),
    ):
        world = World(openid=True)
        world.provider.metadata = {"authorization_response_iss_parameter_supported": True}
        login = await world.client(EDITOR)
        async with world.browser("ada") as browser:
            sent = await consented(browser, login)
            came = await browser.follow(sent, until=f"{ORIGIN}/callback")
            query = answer(came) | ({} if said is None else {"iss": said})
            ended = await browser.get("/callback", params=query)
        assert await world.holds(login, ended) == user
        assert bool(world.provider.to("/token")) == (user is not None)


async def test_a_provider_that_redirects_its_answers_is_not_followed() -> None:
    """Neither the code nor the secret goes to where it points."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import Route

    world = World()
    heard: list[bytes] = []

    async def elsewhere(request: Request) -> Response:
        heard.append(await request.body())
        return JSONResponse({"access_token": "x", "token_type": "Bearer"})

    async def redirecting(request: Request) -> Response:
        return RedirectResponse("https://evil.example/token", 307)

    world.hosts["evil.example"] = Starlette(routes=[Route("/token", elsewhere, methods=["POST", "GET"])])
    world.provider.app.router.routes.insert(0, Route("/token", redirecting, methods=["POST"]))
    assert await somebody(world) is None
    assert heard == []
