"""Logins at OpenID Connect and plain OAuth providers, from the side of the proxy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.responses import JSONResponse

from mcpkit.auth import UpstreamProvider
from mcpkit.auth.base64url import encode
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from mcpkit.auth.upstream.tokens import UpstreamTokens
from tests.helpers.fake_idp import (
    CALLBACK,
    CLIENT,
    USERINFO,
    OpenIdSite,
    UpstreamLogin,
    openid,
)
from tests.helpers.signed_tokens import Signer
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


async def test_openid_login_returns_identity_and_tokens(provider, login):
    provider.users["ada"] = {"email": "ada@example.com"}
    provider.claims = lambda claims: {
        **claims,
        "groups": ["staff"],
        "jti": "1",
        "azp": "proxy",
        "email": "old",
    }
    identity, tokens = await login.redeemed()

    assert identity.subject == "sub-of-ada"
    assert identity.claims == {"groups": ["staff"], "email": "ada@example.com", "name": "Ada"}
    assert tokens.scopes == ("openid", "profile", "email", "offline_access")
    assert tokens.expires is not None
    assert 3_500 < tokens.expires - time.time() <= 3_600
    assert tokens.said == {"sub": "sub-of-ada", "groups": ["staff"], "email": "old"}


async def test_openid_authorization_url(provider, login):
    async def query_of_login() -> dict[str, str]:
        url = await login.url()
        return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}

    query = await query_of_login()
    assert query.pop("code_challenge")
    assert query == {
        "response_type": "code",
        "client_id": "proxy",
        "redirect_uri": CALLBACK,
        "scope": "openid profile email offline_access",
        "state": "the-state",
        "code_challenge_method": "S256",
        "nonce": "the-nonce",
        "prompt": "consent",
    }


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
async def test_openid_id_token_algorithms_and_at_hash(algorithm):
    import hashlib

    sizes = {"ES384": hashlib.sha384, "EdDSA": hashlib.sha512}
    with openid(Signer(algorithm)) as provider:
        wanted: list[str] = []

        def changed(members: dict[str, Any]) -> dict[str, Any]:
            hashed = sizes.get(algorithm, hashlib.sha256)(members["access_token"].encode()).digest()
            wanted.append(encode(hashed[: len(hashed) // 2]))
            claims = {"iss": provider.url, "sub": "ada", "aud": "proxy", "nonce": "the-nonce"}
            times = {"iat": int(time.time()), "exp": int(time.time()) + 60}
            query = json.dumps({**claims, **times, "at_hash": wanted[-1]}).encode()
            return {**members, "id_token": provider.signer.sign(query, {"typ": None})}

        provider.changed = changed
        provider.metadata["userinfo_endpoint"] = None
        upstream = UpstreamProvider.openid(provider.url, *CLIENT)
        identity, tokens = await UpstreamLogin(upstream).redeemed()
        again = await upstream.provider.identify(tokens)
        await upstream.provider.aclose()

    assert identity.subject == "ada"
    assert again == identity, "without userinfo the ID token is used"


OTHER = Signer(key_id="another")


INVALID_CLAIMS: list[tuple[str, Callable[[OpenIdSite], dict[str, Any]], str]] = [
    ("issuer", lambda site: {"iss": f"{site.url}/"}, "another issuer"),
    ("no issuer", lambda site: {"iss": None}, "another issuer"),
    ("audience", lambda site: {"aud": "another"}, "another client"),
    ("no audience", lambda site: {"aud": None}, "another client"),
    ("audiences without azp", lambda site: {"aud": ["proxy", "another"]}, "another client"),
    ("azp of another", lambda site: {"aud": ["proxy", "another"], "azp": "another"}, "another client"),
    ("azp of another alone", lambda site: {"azp": "another"}, "another client"),
    ("azp that is none", lambda site: {"azp": ["proxy"]}, "another client"),
    ("expired", lambda site: {"exp": int(time.time()) - 10}, "has expired, although .* Check the clock"),
    ("no exp", lambda site: {"exp": None}, "exp, nbf or iat of the token"),
    ("no iat", lambda site: {"iat": None}, "exp, nbf or iat of the token"),
    (
        "from the future",
        lambda site: {"iat": int(time.time()) + 600},
        "not valid yet, although .* Check the clock",
    ),
    ("nonce", lambda site: {"nonce": "another"}, "another login"),
    ("no nonce", lambda site: {"nonce": None}, "another login"),
    ("nonce that is none", lambda site: {"nonce": ["the-nonce"]}, "another login"),
    ("at_hash", lambda site: {"at_hash": encode(b"x" * 16)}, "another access token"),
    ("at_hash that is none", lambda site: {"at_hash": 7}, "another access token"),
    ("sub", lambda site: {"sub": "sub-of-bob"}, "for another user"),
    ("no sub", lambda site: {"sub": None}, "no valid user ID"),
    ("empty sub", lambda site: {"sub": ""}, "no valid user ID"),
    ("a sub that is none", lambda site: {"sub": 7}, "no valid user ID"),
    ("a sub with control characters", lambda site: {"sub": "a\x00b"}, "no valid user ID"),
]


@each_row(("name", "changes", "problem"), INVALID_CLAIMS)
async def test_openid_id_token_invalid_is_rejected(provider, login, name, changes, problem):
    provider.claims = lambda claims: {**claims, **changes(provider)}
    with pytest.raises(UpstreamUnavailableError, match=problem) as caught:
        await login.redeemed()

    assert not any(each in str(caught.value) for each in provider.secrets)
    assert provider.logins[-1].is_over, "what was issued is revoked"


@pytest.mark.slow
async def test_openid_id_token_of_other_key_or_type_is_rejected(provider, login):
    for signer, header, problem in (
        (Signer(key_id="one"), {}, "no key of the provider verifies"),
        (OTHER, {}, "no key of the provider verifies"),
        (provider.signer, {"alg": "none"}, "its signature algorithm is not accepted"),
        (provider.signer, {"alg": "HS256"}, "its signature algorithm is not accepted"),
        (provider.signer, {"typ": "at+jwt"}, "another type"),
        (provider.signer, {"typ": "logout+jwt"}, "another type"),
        (provider.signer, {"crit": ["b64"]}, "critical"),
    ):
        provider.signer, provider.header = signer, header
        with pytest.raises(UpstreamUnavailableError, match=problem):
            await login.redeemed()


@pytest.mark.slow
async def test_openid_id_token_missing_is_rejected(provider, login):
    for instead in (None, "", "a.b.c", 7, {"a": "b"}):
        provider.changed = lambda members, instead=instead: {**members, "id_token": instead}
        with pytest.raises(UpstreamUnavailableError, match="the ID token of"):
            await login.redeemed()


async def test_openid_refresh_rotates_and_updates_claims(provider, login):
    provider.claims = lambda claims: {**claims, "groups": ["staff", "admins"]}
    before, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "groups": ["staff"], "nonce": None}
    provider.users["ada"] = {"email": "new@example.com"}
    stored = UpstreamTokens(**json.loads(json.dumps(asdict(tokens))))
    renewed = await login.upstream.provider.refresh(stored)
    identity = await login.upstream.provider.identify(renewed)

    assert before.claims["groups"] == ["staff", "admins"]
    assert identity.subject == before.subject
    assert identity.claims == {"groups": ["staff"], "name": "Ada", "email": "new@example.com"}
    assert renewed.refresh_token not in {None, tokens.refresh_token}
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.upstream.provider.refresh(tokens)
    assert caught.value.error == "invalid_grant"
    with pytest.raises(UpstreamRefusedError):  # the login is over, as the old one was used again
        await login.upstream.provider.refresh(renewed)


async def test_openid_refresh_of_another_user_is_rejected(provider, login):
    _, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "sub": "sub-of-bob"}
    with pytest.raises(UpstreamRefusedError, match="another user") as caught:
        await login.upstream.provider.refresh(tokens)

    assert caught.value.error == "invalid_grant"


async def test_openid_refresh_with_invalid_id_token_keeps_tokens(provider, login, caplog):
    _, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "aud": "another"}
    renewed = await login.upstream.provider.refresh(tokens)

    assert renewed.refresh_token == provider.logins[0].refresh
    assert renewed.said == tokens.said
    assert "another client (aud)" in caplog.text


async def test_openid_revoke_sends_both_tokens(provider, login):
    _, tokens = await login.redeemed()
    await login.upstream.provider.revoke(tokens)
    assert provider.revoked == [tokens.refresh_token, tokens.access_token]
    provider.instead = lambda _: JSONResponse({"error": "unsupported_token_type"}, 400)
    await login.upstream.provider.revoke(tokens)
    provider.instead = lambda _: JSONResponse({"error": "invalid_client"}, 401)
    with pytest.raises(UpstreamUnavailableError, match="responded with HTTP 401"):
        await login.upstream.provider.revoke(tokens)
    provider.mend()
    provider.metadata["revocation_endpoint"] = None
    without = UpstreamProvider.openid(provider.url, *CLIENT)
    await without.provider.revoke(tokens)
    await without.provider.aclose()


@pytest.mark.parametrize("is_said", [True, False])
async def test_openid_callback_iss_is_checked(provider, login, is_said):
    provider.metadata["authorization_response_iss_parameter_supported"] = is_said
    answer = await login.answered()
    for named in ([] if not is_said else [None]) + [f"{provider.url}/", "https://evil.example.com"]:
        with pytest.raises(UpstreamRefusedError, match="another issuer"):
            await login.redeemed(answer if named is None else {**answer, "iss": named})
    assert not provider.forms
    assert (await login.redeemed({**answer, "iss": provider.url}))[0].subject == "sub-of-ada"


@pytest.mark.limit("code that a provider sends somebody back with")
async def test_openid_callback_code_invalid_is_rejected(provider, login):
    for answer in ({}, {"code": ""}, {"code": "x" * 8_193}, {"error": ""}):
        with pytest.raises(UpstreamRefusedError) as caught:
            await login.redeemed(answer)
        assert caught.value.error == "invalid_request"
    assert not provider.forms
    with pytest.raises(UpstreamRefusedError) as refused:
        await login.redeemed({"code": "x" * 8_192})
    assert refused.value.error == "invalid_grant", "the provider was asked"


@pytest.mark.limit("claims of a user that a provider tells")
async def test_openid_claims_are_limited(provider, login):
    provider.told = lambda claims: {**claims, "about": "x" * 1_025, "small": "x" * 1_024}
    identity, _ = await login.redeemed()
    assert "about" not in identity.claims
    assert "small" in identity.claims
    provider.told = lambda claims: {**claims, **{f"n{each}": "x" * 1_000 for each in range(33)}}
    with pytest.raises(UpstreamUnavailableError, match="more than 32,768 characters"):
        await login.redeemed()
    upstream = UpstreamProvider.openid(provider.url, *CLIENT, claims=["about"])
    provider.told = lambda claims: {**claims, "about": "x" * 2_000}
    wanted, _ = await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()
    assert len(str(wanted.claims["about"])) == 2_000


async def test_openid_userinfo_of_another_user_is_rejected(provider, login):
    for sub in ("sub-of-bob", None, ["sub-of-ada"]):
        provider.told = lambda claims, sub=sub: {**claims, "sub": sub}
        with pytest.raises(UpstreamUnavailableError, match="another user"):
            await login.redeemed()


async def test_openid_identify_with_ended_token_is_rejected(provider, login):
    _, tokens = await login.redeemed()
    provider.end("ada")
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.upstream.provider.identify(tokens)
    assert caught.value.error == "invalid_token"
    assert provider.asked[USERINFO] == 2


def by_hand(provider: OpenIdSite, **options: Any) -> UpstreamProvider:
    endpoints = {
        "authorization_endpoint": f"{provider.url}/authorize",
        "token_endpoint": f"{provider.url}/token",
        "userinfo_endpoint": f"{provider.url}/userinfo",
    }
    return UpstreamProvider.oauth("https://chat.example.com", *CLIENT, **{**endpoints, **options})


@each_row("id_", [None, True, 1.5, "", [], {"id": 1}, "a\nb"])
async def test_oauth_subject_invalid_is_rejected(provider, id_):
    provider.told = lambda claims: {**claims, "id": id_}
    upstream = by_hand(provider, subject_claim="id")
    with pytest.raises(UpstreamUnavailableError, match="returned no valid user ID"):
        await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()
