"""Hostile answers of a provider, and redirects to where the user did not agree."""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tests.auth.proxy.world import CLIENT, EDITOR, ORIGIN, PROVIDER, World, answer, consented, logged_in
from tests.helpers.fake_idp import TOKEN
from tests.helpers.signed_tokens import Signer, encoded
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

NOW = time.time()


def compact(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    """Return a token with an HMAC, or without a signature."""
    signed = b".".join(encoded(json.dumps(each).encode()) for each in (header, claims))
    signature = b"" if secret is None else hmac.digest(secret, signed, "sha256")
    return (signed + b"." + encoded(signature)).decode()


def by_hmac(secret: Callable[[Signer], bytes]) -> Callable[[Signer, dict[str, Any]], str]:
    def sign(own: Signer, claims: dict[str, Any]) -> str:
        return compact({"alg": "HS256", "kid": own.key_id, "typ": "JWT"}, claims, secret(own))

    return sign


STRANGER = Signer("ES256")
CHANGED_CLAIMS: list[dict[str, Any]] = [
    {"aud": "another-client"}, {"aud": [CLIENT[0], "other"], "azp": "other"}, {"aud": None},
    {"nonce": "another"}, {"nonce": None}, {"nonce": ["x"]}, {"nonce": "\ud800"}, {"nonce": ""},
    {"at_hash": "\ud800"}, {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
    {"iss": "https://evil.example"}, {"iss": f"{PROVIDER}/"}, {"iss": None},
    {"exp": NOW - 3600}, {"exp": None}, {"exp": "9999999999"}, {"sub": None}, {"sub": ""}, {"sub": 7},
]  # fmt: skip
SIGNED: dict[str, Callable[[Signer, dict[str, Any]], str]] = {
    "alg none": lambda own, claims: compact({"alg": "none"}, claims, None),
    "alg None": lambda own, claims: compact({"alg": "None", "kid": "one"}, claims, None),
    "no signature": lambda own, claims: own.token(claims).rpartition(".")[0] + ".",
    "HS256 with the client's secret": by_hmac(lambda _: CLIENT[1].encode()),
    "HS256 with the public key": by_hmac(lambda own: own.key.as_pem(private=False)),
    "HS256 with an empty key": by_hmac(lambda _: b""),
    "a stranger's key": lambda own, claims: STRANGER.token(claims),
    "a key in the token": lambda own, claims: STRANGER.token(claims, {"jwk": STRANGER.public(), "kid": None}),
    "a key elsewhere": lambda own, claims: STRANGER.token(claims, {"jku": "https://evil.example/keys"}),
    "an access token": lambda own, claims: own.token(claims, {"typ": "at+jwt"}),
    "a logout token": lambda own, claims: own.token(claims, {"typ": "logout+jwt"}),
    "a critical header": lambda own, claims: own.token(claims, {"crit": ["x"], "x": 1, "typ": "JWT"}),
    "no token": lambda own, claims: "no token",
}


async def log_in_as_ada(world: World) -> str | None:
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        return await world.holds(login, await logged_in(browser, login))


@each_row("change", [*CHANGED_CLAIMS, *SIGNED])
async def test_hostile_id_token_gives_no_login(change, caplog):
    caplog.set_level(logging.DEBUG)
    world = World(openid=True)
    provider = world.provider
    assert await log_in_as_ada(world) == "ada"  # the control: the same without the change
    if isinstance(change, str):

        def sign(members: dict[str, Any]) -> dict[str, Any]:
            now = int(time.time())
            claims = {"iss": PROVIDER, "sub": "sub-of-ada", "aud": CLIENT[0], "iat": now, "exp": now + 600}
            claims["nonce"] = provider.logins[-1].asked["nonce"]
            return {**members, "id_token": SIGNED[change](provider.signer, claims)}

        provider.changed = sign
    else:
        provider.claims = lambda claims: {**claims, **change}
    assert await log_in_as_ada(world) is None
    messages = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("mcpkit"))
    for secret in (*provider.tokens, CLIENT[1]):
        assert secret not in messages


@each_row("sub", ["sub-of-mallory", None, "", 7, "SUB-OF-ADA", "sub-of-ada "])
async def test_userinfo_of_another_user_is_ignored(sub):
    """The subject is that of the ID token, whatever userinfo says."""
    world = World(openid=True)
    world.provider.told = lambda claims: {**claims, "sub": sub}
    assert await log_in_as_ada(world) in {None, "ada"}


@each_row(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": f"{PROVIDER}/"},
        {"issuer": None},
        {"token_endpoint": "http://id.example.net/token"},
        {"token_endpoint": 7},
        {"token_endpoint": None},
        {"authorization_endpoint": "http://id.example.net/authorize"},
        {"authorization_endpoint": "javascript:alert(1)//"},
        {"authorization_endpoint": "https://x@id.example.net/authorize"},
        {"jwks_uri": "http://id.example.net/keys"},
        {"jwks_uri": None},
    ],
)
async def test_hostile_metadata_is_not_used(metadata):
    world = World(openid=True)
    world.provider.metadata = metadata
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        ended = await logged_in(browser, login)
    assert answer(ended).get("error") == "temporarily_unavailable"
    assert answer(ended)["iss"] == ORIGIN
    # The code, the verifier and the secret have not left; keys are only needed for the response to them.
    assert "jwks_uri" in metadata or not world.provider.asked[TOKEN]
    assert CLIENT[1] not in str(ended.headers)


async def test_redirect_of_token_endpoint_is_not_followed():
    """Neither the code nor the secret goes to where it points."""
    world = World()
    received: list[str] = []

    async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
        received.append(scope["path"])
        await Response(status_code=404)(scope, receive, send)

    def redirect(request: Request) -> Response | None:
        return RedirectResponse("https://evil.example/token", 307) if request.url.path == TOKEN else None

    world.hosts["evil.example"] = elsewhere
    world.provider.instead = redirect
    assert await log_in_as_ada(world) is None
    assert received == []


@each_row(
    "state",
    [
        "x\r\nSet-Cookie: stolen=1", "x\nLocation: https://evil.example", "x\x00y", "<script>alert(1)</script>",
        "'\"><img src=x>", "x&code=attackers&iss=https://evil.example", "x#code=attackers",
        "%0d%0aSet-Cookie:%20stolen=1", "\u2028\u202e\U0001f600", "é",
    ],
)  # fmt: skip
async def test_hostile_state_is_returned_unchanged(state):
    world = World()
    for uri in (EDITOR, f"{EDITOR}?a=1"):
        login = await world.client(uri, state=state)
        async with world.browser("ada") as browser:
            ended = await logged_in(browser, login)
            denied = await consented(browser, login, "deny")
        for response in (ended, denied):
            location = response.headers["location"]
            assert location.isascii()
            assert location.isprintable()
            assert answer(response)["state"] == state
            assert answer(response)["iss"] == ORIGIN
            assert location.count("code=") + location.count("error=") == 1
            assert "stolen" not in str(response.headers.get_list("set-cookie"))


@each_row(
    ("error", "description"),
    [
        ("access_denied", "no"),
        ("server_error\r\nSet-Cookie: a=b", "x\r\nSet-Cookie: a=b"),
        ("<script>", "<script>alert(1)</script>"),
        ("x" * 5000, "y" * 20000),
        ("access_denied&code=attackers", "&code=attackers"),
        ("é\u202e", "\u202e\x00"),
        ("", ""),
    ],
)
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
