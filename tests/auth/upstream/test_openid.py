"""Users who log in with an OpenID provider."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcpkit.auth import Upstream
from mcpkit.auth.base64url import encode
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from mcpkit.auth.upstream.tokens import UpstreamTokens
from tests.helpers.openid_site import KEYS, METADATA, TOKEN, USERINFO, OpenIdSite, openid
from tests.helpers.signed_tokens import Signer
from tests.helpers.upstream_login import CALLBACK, UpstreamLogin
from tests.helpers.upstream_site import CLIENT

pytestmark = pytest.mark.anyio


async def test_a_user_logs_in(provider: OpenIdSite, login: UpstreamLogin) -> None:
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


async def test_each_document_is_fetched_once(provider: OpenIdSite, login: UpstreamLogin) -> None:
    await login.redeemed()
    await login.redeemed()

    assert (provider.asked[METADATA], provider.asked[KEYS]) == (1, 1)
    assert len(provider.asked) == 5, "and nobody looks where it is not"


async def test_what_the_browser_is_sent_with(provider: OpenIdSite, login: UpstreamLogin) -> None:
    async def asked() -> dict[str, str]:
        url = await login.url()
        return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}

    told = await asked()
    assert told.pop("code_challenge")
    assert told == {
        "response_type": "code",
        "client_id": "proxy",
        "redirect_uri": CALLBACK,
        "scope": "openid profile email offline_access",
        "state": "the-state",
        "code_challenge_method": "S256",
        "nonce": "the-nonce",
        "prompt": "consent",
    }


async def test_offline_access_is_for_those_who_know_it(provider: OpenIdSite) -> None:
    provider.metadata["scopes_supported"] = None
    provider.metadata["authorization_endpoint"] = f"{provider.url}/authorize?tenant=one"
    upstream = Upstream.openid(provider.url, *CLIENT)
    url = await UpstreamLogin(upstream).url()
    chosen = Upstream.openid(
        provider.url, *CLIENT, scopes=["openid", "offline_access"], parameters={"a": "b c"}
    )
    other = await UpstreamLogin(chosen).url()
    await upstream.provider.aclose()
    await chosen.provider.aclose()

    assert url.startswith(f"{provider.url}/authorize?tenant=one&response_type=code&")
    assert "prompt" not in url
    assert "scope=openid%20profile%20email&" in f"{url}&"
    assert "scope=openid%20offline_access&" in f"{other}&"
    assert "a=b%20c&" in f"{other}&"


@pytest.mark.parametrize(
    ("methods", "authentication", "expected"),
    [
        (None, None, "basic"),
        (["client_secret_post"], None, "post"),
        (["client_secret_post", "client_secret_basic"], None, "basic"),
        (["client_secret_post", "client_secret_basic"], "post", "post"),
        (["private_key_jwt"], None, "basic"),
    ],
)
async def test_this_server_says_who_it_is_as_the_provider_knows_it(
    provider: OpenIdSite, methods: list[str] | None, authentication: Any, expected: str
) -> None:
    provider.metadata["token_endpoint_auth_methods_supported"] = methods
    seen: list[str | None] = []

    def instead(request: Request) -> Response | None:
        if request.url.path == TOKEN:
            seen.append(request.headers.get("authorization"))
        return None

    provider.instead = instead
    options: Any = {} if authentication is None else {"authentication": authentication}
    upstream = Upstream.openid(provider.url, *CLIENT, **options)
    _, tokens = await UpstreamLogin(upstream).redeemed()
    await upstream.provider.revoke(tokens)
    await upstream.provider.aclose()

    assert len(provider.revoked) == 2
    assert ["client_secret" in form for _, form in provider.forms] == [expected == "post"] * 3
    if expected == "basic":
        assert seen[0] is not None
        assert b64decode(seen[0].removeprefix("Basic ")) == b"proxy:the+secret+of+the+proxy"


async def test_a_client_without_a_secret(provider: OpenIdSite) -> None:
    provider.client = ("proxy", None)
    upstream = Upstream.openid(provider.url, "proxy", None)
    identity, _ = await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()

    assert identity.subject == "sub-of-ada"
    assert provider.forms[0][1]["client_id"] == "proxy"


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
async def test_each_signature_and_the_hash_of_the_access_token(algorithm: str) -> None:
    import hashlib

    sizes = {"ES384": hashlib.sha384, "EdDSA": hashlib.sha512}
    with openid(Signer(algorithm)) as provider:
        wanted: list[str] = []

        def changed(members: dict[str, Any]) -> dict[str, Any]:
            hashed = sizes.get(algorithm, hashlib.sha256)(members["access_token"].encode()).digest()
            wanted.append(encode(hashed[: len(hashed) // 2]))
            claims = {"iss": provider.url, "sub": "ada", "aud": "proxy", "nonce": "the-nonce"}
            times = {"iat": int(time.time()), "exp": int(time.time()) + 60}
            told = json.dumps({**claims, **times, "at_hash": wanted[-1]}).encode()
            return {**members, "id_token": provider.signer.sign(told, {"typ": None})}

        provider.changed = changed
        provider.metadata["userinfo_endpoint"] = None
        upstream = Upstream.openid(provider.url, *CLIENT)
        identity, tokens = await UpstreamLogin(upstream).redeemed()
        again = await upstream.provider.identify(tokens)
        await upstream.provider.aclose()

    assert identity.subject == "ada"
    assert again == identity, "nobody can be asked, and the ID token holds"


OTHER = Signer(key_id="another")
WRONG: list[tuple[str, Callable[[OpenIdSite], dict[str, Any]], str]] = [
    ("issuer", lambda site: {"iss": f"{site.url}/"}, "another issuer"),
    ("no issuer", lambda site: {"iss": None}, "another issuer"),
    ("audience", lambda site: {"aud": "another"}, "another client"),
    ("no audience", lambda site: {"aud": None}, "another client"),
    ("audiences without azp", lambda site: {"aud": ["proxy", "another"]}, "another client"),
    ("azp of another", lambda site: {"aud": ["proxy", "another"], "azp": "another"}, "another client"),
    ("azp of another alone", lambda site: {"azp": "another"}, "another client"),
    ("azp that is none", lambda site: {"azp": ["proxy"]}, "another client"),
    ("expired", lambda site: {"exp": int(time.time()) - 10}, "has expired, though .* look at the clock"),
    ("no exp", lambda site: {"exp": None}, "times of the token"),
    ("no iat", lambda site: {"iat": None}, "times of the token"),
    (
        "from the future",
        lambda site: {"iat": int(time.time()) + 600},
        "not valid yet, though .* look at the clock",
    ),
    ("nonce", lambda site: {"nonce": "another"}, "another login"),
    ("no nonce", lambda site: {"nonce": None}, "another login"),
    ("nonce that is none", lambda site: {"nonce": ["the-nonce"]}, "another login"),
    ("at_hash", lambda site: {"at_hash": encode(b"x" * 16)}, "another access token"),
    ("at_hash that is none", lambda site: {"at_hash": 7}, "another access token"),
    ("sub", lambda site: {"sub": "sub-of-bob"}, "of another user"),
    ("no sub", lambda site: {"sub": None}, "does not say who"),
    ("empty sub", lambda site: {"sub": ""}, "does not say who"),
    ("a sub that is none", lambda site: {"sub": 7}, "does not say who"),
    ("a sub with control characters", lambda site: {"sub": "a\x00b"}, "does not say who"),
]


@pytest.mark.parametrize(
    ("changes", "problem"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG]
)
async def test_an_id_token_of_somebody_else_is_not_taken(
    provider: OpenIdSite, login: UpstreamLogin, changes: Any, problem: str
) -> None:
    provider.claims = lambda claims: {**claims, **changes(provider)}
    with pytest.raises(UpstreamUnavailableError, match=problem) as caught:
        await login.redeemed()

    assert not any(each in str(caught.value) for each in provider.secrets)
    assert provider.logins[0].is_over, "what was issued is revoked"


@pytest.mark.slow
async def test_an_id_token_of_another_key_or_kind_is_not_taken(
    provider: OpenIdSite, login: UpstreamLogin
) -> None:
    for signer, header, problem in (
        (Signer(key_id="one"), {}, "none of the provider's keys"),
        (OTHER, {}, "none of the provider's keys"),
        (provider.signer, {"alg": "none"}, "a way that is not taken"),
        (provider.signer, {"alg": "HS256"}, "a way that is not taken"),
        (provider.signer, {"typ": "at+jwt"}, "another type"),
        (provider.signer, {"typ": "logout+jwt"}, "another type"),
        (provider.signer, {"crit": ["b64"]}, "critical"),
    ):
        provider.signer, provider.header = signer, header
        with pytest.raises(UpstreamUnavailableError, match=problem):
            await login.redeemed()


@pytest.mark.slow
async def test_an_id_token_has_to_be_there(provider: OpenIdSite, login: UpstreamLogin) -> None:
    for instead in (None, "", "a.b.c", 7, {"a": "b"}):
        provider.changed = lambda members, instead=instead: {**members, "id_token": instead}
        with pytest.raises(UpstreamUnavailableError, match="the ID token of"):
            await login.redeemed()


async def test_keys_may_change(provider: OpenIdSite, login: UpstreamLogin) -> None:
    await login.redeemed()
    provider.signer = Signer(key_id="two")
    provider.published = [provider.signer]

    assert (await login.redeemed())[0].subject == "sub-of-ada"
    assert provider.asked[KEYS] == 2


async def test_a_refresh_rotates_and_says_who_it_is_anew(provider: OpenIdSite, login: UpstreamLogin) -> None:
    provider.claims = lambda claims: {**claims, "groups": ["staff", "admins"]}
    before, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "groups": ["staff"], "nonce": None}
    provider.users["ada"] = {"email": "new@example.com"}
    kept = UpstreamTokens(**json.loads(json.dumps(asdict(tokens))))
    renewed = await login.upstream.provider.refresh(kept)
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


async def test_what_a_refresh_does_not_say_stays(provider: OpenIdSite, login: UpstreamLogin) -> None:
    _, tokens = await login.redeemed()
    provider.changed = lambda members: {
        name: members[name] for name in ("access_token", "token_type", "expires_in")
    }
    renewed = await login.upstream.provider.refresh(tokens)

    assert renewed.access_token != tokens.access_token
    assert (renewed.refresh_token, renewed.scopes, renewed.said) == (
        tokens.refresh_token,
        tokens.scopes,
        tokens.said,
    )


async def test_a_refresh_of_somebody_else_ends_the_login(provider: OpenIdSite, login: UpstreamLogin) -> None:
    _, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "sub": "sub-of-bob"}
    with pytest.raises(UpstreamRefusedError, match="another user") as caught:
        await login.upstream.provider.refresh(tokens)

    assert caught.value.error == "invalid_grant"


async def test_no_tokens_are_lost_by_an_id_token_that_cannot_be_taken(
    provider: OpenIdSite, login: UpstreamLogin, caplog: pytest.LogCaptureFixture
) -> None:
    _, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "aud": "another"}
    renewed = await login.upstream.provider.refresh(tokens)

    assert renewed.refresh_token == provider.logins[0].refresh
    assert renewed.said == tokens.said
    assert "another client (aud)" in caplog.text


@pytest.mark.parametrize("error", ["interaction_required", "login_required", "consent_required"])
async def test_who_has_to_log_in_again_does(provider: OpenIdSite, login: UpstreamLogin, error: str) -> None:
    _, tokens = await login.redeemed()
    provider.instead = lambda _: JSONResponse({"error": error}, 400)
    with pytest.raises(UpstreamRefusedError, match=error) as caught:
        await login.upstream.provider.refresh(tokens)
    assert caught.value.error == "invalid_grant"


async def test_revocation_of_both(provider: OpenIdSite, login: UpstreamLogin) -> None:
    _, tokens = await login.redeemed()
    await login.upstream.provider.revoke(tokens)
    assert provider.revoked == [tokens.refresh_token, tokens.access_token]
    provider.instead = lambda _: JSONResponse({"error": "unsupported_token_type"}, 400)
    await login.upstream.provider.revoke(tokens)
    provider.instead = lambda _: JSONResponse({"error": "invalid_client"}, 401)
    with pytest.raises(UpstreamUnavailableError, match="has answered 401"):
        await login.upstream.provider.revoke(tokens)
    provider.mend()
    provider.metadata["revocation_endpoint"] = None
    without = Upstream.openid(provider.url, *CLIENT)
    await without.provider.revoke(tokens)
    await without.provider.aclose()


@pytest.mark.parametrize("is_said", [True, False])
async def test_who_answers_is_who_was_asked(
    provider: OpenIdSite, login: UpstreamLogin, is_said: bool
) -> None:
    provider.metadata["authorization_response_iss_parameter_supported"] = is_said
    answer = await login.answered()
    for named in ([] if not is_said else [None]) + [f"{provider.url}/", "https://evil.example.com"]:
        with pytest.raises(UpstreamRefusedError, match="another issuer"):
            await login.redeemed(answer if named is None else {**answer, "iss": named})
    assert not provider.forms
    assert (await login.redeemed({**answer, "iss": provider.url}))[0].subject == "sub-of-ada"


@pytest.mark.limit("code that a provider sends somebody back with")
async def test_a_callback_without_a_code_that_could_be_one(
    provider: OpenIdSite, login: UpstreamLogin
) -> None:
    for answer in ({}, {"code": ""}, {"code": "x" * 8_193}, {"error": ""}):
        with pytest.raises(UpstreamRefusedError) as caught:
            await login.redeemed(answer)
        assert caught.value.error == "invalid_request"
    assert not provider.forms
    with pytest.raises(UpstreamRefusedError) as refused:
        await login.redeemed({"code": "x" * 8_192})
    assert refused.value.error == "invalid_grant", "it has been asked"


async def test_a_code_of_another_login_is_worth_nothing(upstream: Upstream, login: UpstreamLogin) -> None:
    answer = await login.answered()
    thief = UpstreamLogin(upstream, verifier="another-verifier-" * 3)
    with pytest.raises(UpstreamRefusedError) as caught:
        await thief.redeemed(answer)
    assert caught.value.error == "invalid_grant"


@pytest.mark.limit("claims of a user that a provider tells")
async def test_what_is_said_of_a_user_is_bounded(provider: OpenIdSite, login: UpstreamLogin) -> None:
    provider.told = lambda claims: {**claims, "about": "x" * 1_025, "small": "x" * 1_024}
    identity, _ = await login.redeemed()
    assert "about" not in identity.claims
    assert "small" in identity.claims
    provider.told = lambda claims: {**claims, **{f"n{each}": "x" * 1_000 for each in range(33)}}
    with pytest.raises(UpstreamUnavailableError, match="more than 32,768 characters"):
        await login.redeemed()
    upstream = Upstream.openid(provider.url, *CLIENT, claims=["about"])
    provider.told = lambda claims: {**claims, "about": "x" * 2_000}
    wanted, _ = await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()
    assert len(str(wanted.claims["about"])) == 2_000


async def test_userinfo_of_somebody_else_is_not_taken(provider: OpenIdSite, login: UpstreamLogin) -> None:
    for sub in ("sub-of-bob", None, ["sub-of-ada"]):
        provider.told = lambda claims, sub=sub: {**claims, "sub": sub}
        with pytest.raises(UpstreamUnavailableError, match="another user"):
            await login.redeemed()


async def test_a_token_that_is_worth_nothing_any_more(provider: OpenIdSite, login: UpstreamLogin) -> None:
    _, tokens = await login.redeemed()
    provider.end("ada")
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.upstream.provider.identify(tokens)
    assert caught.value.error == "invalid_token"
    assert provider.asked[USERINFO] == 2
