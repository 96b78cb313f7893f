"""Logins at OpenID Connect, plain OAuth and GitHub providers, from the side of the proxy."""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from mcpkit import Client, Context, Server
from mcpkit.auth import OAuthProxy, StaticTokens, TokenVerifier, UpstreamProvider
from mcpkit.auth.jws import base64url_encode
from mcpkit.auth.oauth_http_client import MAX_DOCUMENT
from mcpkit.auth.upstream.upstream_client import (
    UpstreamRefusedError,
    UpstreamTokens,
    UpstreamUnavailableError,
)
from mcpkit.exceptions import AuthorizationError
from mcpkit.testing import connect
from tests.helpers import fake_idp
from tests.helpers.oauth_flow import SECRET, FakeUpstream, ProxyFlow
from tests.helpers.serving import in_thread_at
from tests.helpers.signed_tokens import Signer, encoded
from tests.helpers.tables import each_row


@asynccontextmanager
async def login_at(upstream: UpstreamProvider) -> AsyncIterator[fake_idp.UpstreamLogin]:
    yield fake_idp.UpstreamLogin(upstream)
    await upstream.provider.aclose()


async def refusal_of(request: Any) -> tuple[str, str]:
    """Return the error and the description with which the provider refuses a request."""
    with pytest.raises(UpstreamRefusedError) as caught:
        await request
    return caught.value.error, caught.value.description


async def authorization_query(login: fake_idp.UpstreamLogin) -> dict[str, str]:
    query = {name: values[0] for name, values in parse_qs(urlsplit(await login.url()).query).items()}
    assert query.pop("code_challenge")
    return query


QUERY = {
    "response_type": "code", "client_id": "proxy", "redirect_uri": fake_idp.CALLBACK, "state": "the-state",
    "code_challenge_method": "S256",
}  # fmt: skip


async def test_openid_login_returns_identity_and_tokens(provider, login):
    provider.users["ada"] = {"email": "ada@example.com"}
    more = {"groups": ["staff"], "jti": "1", "azp": "proxy", "email": "old"}
    provider.claims = lambda claims: {**claims, **more}
    identity, tokens = await login.redeemed()
    assert identity.subject == "sub-of-ada"
    assert identity.claims == {"groups": ["staff"], "email": "ada@example.com", "name": "Ada"}
    assert tokens.scopes == ("openid", "profile", "email", "offline_access")
    assert tokens.expires is not None
    assert 3_500 < tokens.expires - time.time() <= 3_600
    assert tokens.id_token_claims == {"sub": "sub-of-ada", "groups": ["staff"], "email": "old"}
    scope = "openid profile email offline_access"
    expected = QUERY | {"scope": scope, "nonce": "the-nonce", "prompt": "consent"}
    assert await authorization_query(login) == expected


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [("RS256", "sha256"), ("PS256", "sha256"), ("ES256", "sha256"), ("ES384", "sha384"), ("EdDSA", "sha512")],
)
async def test_openid_id_token_algorithms_and_at_hash(algorithm, digest):
    with fake_idp.openid(Signer(algorithm)) as provider:

        def changed(members: dict[str, Any]) -> dict[str, Any]:
            hashed = hashlib.new(digest, members["access_token"].encode()).digest()
            now = int(time.time())
            claims = {"iss": provider.url, "sub": "ada", "aud": "proxy", "nonce": "the-nonce", "iat": now}
            claims |= {"exp": now + 60, "at_hash": base64url_encode(hashed[: len(hashed) // 2])}
            return {**members, "id_token": provider.signer.sign(json.dumps(claims).encode(), {"typ": None})}

        provider.changed = changed
        provider.metadata["userinfo_endpoint"] = None
        async with login_at(UpstreamProvider.openid(provider.url, *fake_idp.CLIENT)) as login:
            identity, tokens = await login.redeemed()
            again = await login.upstream.provider.identify(tokens)
    assert identity.subject == "ada"
    assert again == identity, "without userinfo the ID token is used"


NOW = int(time.time())


@each_row(("changes", "problem"), [
    *(({"iss": value}, "another issuer") for value in (None, "https://other.example.com")),
    *(({"aud": value}, "another client") for value in ("another", None, ["proxy", "another"])),
    ({"aud": ["proxy", "another"], "azp": "another"}, "another client"),
    *(({"azp": value}, "another client") for value in ("another", ["proxy"])),
    ({"exp": NOW - 10}, "has expired, although .* Check the clock"),
    ({"exp": "9999999999"}, "exp, nbf or iat of the token"),
    ({"exp": None}, "exp, nbf or iat of the token"),
    ({"iat": None}, "exp, nbf or iat of the token"),
    ({"iat": NOW + 6000}, "not valid yet, although .* Check the clock"),
    ({"nonce": "another"}, "another login"),
    ({"nonce": None}, "another login"),
    *(({"nonce": nonce}, "another login") for nonce in (["the-nonce"], "")),
    *(({"at_hash": value}, "another access token") for value in (7, base64url_encode(b"y" * 16))),
    ({"nonce": "\ud800"}, "not a signed JWT"),
    ({"sub": "sub-of-bob"}, "for another user"),
    *(({"sub": value}, "no valid user ID") for value in (None, "", 7, "a\x00b")),
])  # fmt: skip
async def test_openid_id_token_invalid_is_rejected(provider, login, changes, problem):
    provider.claims = lambda claims: {**claims, **changes}
    with pytest.raises(UpstreamUnavailableError, match=problem) as caught:
        await login.redeemed()
    assert not any(each in str(caught.value) for each in provider.secrets)
    assert provider.logins[-1].is_over, "what was issued is revoked"


def hmac_token(secret: bytes) -> str:
    signed = b".".join(
        encoded(part) for part in (b'{"alg": "HS256", "typ": "JWT"}', b'{"sub": "sub-of-ada"}')
    )
    return (signed + b"." + encoded(hmac.digest(secret, signed, "sha256"))).decode()


@pytest.mark.slow
async def test_openid_id_token_of_other_key_or_type_is_rejected(provider, login):
    stranger = Signer(key_id="stranger")
    secrets = (fake_idp.CLIENT[1].encode(), provider.signer.key.as_pem(private=False), b"")
    for signer, header, problem in (
        (Signer(key_id="one"), {}, "no key of the provider verifies"),
        (Signer(key_id="another"), {}, "no key of the provider verifies"),
        (provider.signer, {"alg": "none"}, "its signature algorithm is not accepted"),
        (provider.signer, {"alg": "HS256"}, "its signature algorithm is not accepted"),
        (provider.signer, {"typ": "at+jwt"}, "another type"),
        (provider.signer, {"typ": "logout+jwt"}, "another type"),
        (provider.signer, {"crit": ["b64"]}, "critical"),
        (stranger, {"jwk": stranger.public(), "kid": None}, "no key of the provider verifies"),
        (stranger, {"jku": "https://evil.example/keys"}, "no key of the provider verifies"),
    ):
        provider.signer, provider.header = signer, header
        with pytest.raises(UpstreamUnavailableError, match=problem):
            await login.redeemed()
    for token in (None, "", "a.b.c", 7, {"a": "b"}, *map(hmac_token, secrets)):
        provider.changed = lambda members, token=token: {**members, "id_token": token}
        with pytest.raises(UpstreamUnavailableError, match="the ID token of"):
            await login.redeemed()


@each_row("metadata", [
    *({"issuer": issuer} for issuer in ("https://evil.example", "https://id.example.net/", None)),
    *({"token_endpoint": url} for url in ("http://id.example.net/token", 7, None)),
    *({"authorization_endpoint": url} for url in (
        "http://id.example.net/authorize", "javascript:alert(1)//", "https://x@id.example.net/authorize",
    )),
    *({"jwks_uri": url} for url in ("http://id.example.net/keys", None)),
])  # fmt: skip
async def test_openid_hostile_metadata_is_not_used(provider, metadata):
    provider.metadata = metadata
    async with login_at(UpstreamProvider.openid(provider.url, *fake_idp.CLIENT)) as login:
        with pytest.raises(UpstreamUnavailableError):
            await login.redeemed()
    # The code, the verifier and the secret have not left; keys are only needed for the response to them.
    assert "jwks_uri" in metadata or not provider.forms


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
    # The second use of the old refresh token ends the login.
    for used in (tokens, renewed):
        assert (await refusal_of(login.upstream.provider.refresh(used)))[0] == "invalid_grant"


async def test_openid_refresh_of_another_user_is_rejected(provider, login):
    _, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "sub": "sub-of-bob"}
    error, description = await refusal_of(login.upstream.provider.refresh(tokens))
    assert (error, "another user" in description) == ("invalid_grant", True)


async def test_openid_refresh_with_invalid_id_token_keeps_tokens(provider, login, caplog):
    _, tokens = await login.redeemed()
    provider.claims = lambda claims: {**claims, "aud": "another"}
    renewed = await login.upstream.provider.refresh(tokens)
    assert renewed.refresh_token == provider.logins[0].refresh
    assert renewed.id_token_claims == tokens.id_token_claims
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
    provider.repair()
    provider.metadata["revocation_endpoint"] = None
    async with login_at(UpstreamProvider.openid(provider.url, *fake_idp.CLIENT)) as without_endpoint:
        await without_endpoint.upstream.provider.revoke(tokens)


@pytest.mark.parametrize("is_supported", [True, False])
async def test_openid_callback_iss_is_checked(provider, login, is_supported):
    provider.metadata["authorization_response_iss_parameter_supported"] = is_supported
    answer = await login.answered()
    wrong = [
        {"iss": f"{provider.url}/"},
        {"iss": "https://evil.example.com"},
        *([{}] if is_supported else []),
    ]
    for changes in wrong:
        assert "another issuer" in str(await refusal_of(login.redeemed({**answer, **changes})))
    assert not provider.forms
    assert (await login.redeemed({**answer, "iss": provider.url}))[0].subject == "sub-of-ada"


@pytest.mark.limit("authorization code of a provider")
async def test_openid_callback_code_invalid_is_rejected(provider, login):
    for answer in ({}, {"code": ""}, {"code": "x" * 8_193}, {"error": ""}):
        assert (await refusal_of(login.redeemed(answer)))[0] == "invalid_request"
    assert not provider.forms
    error, _ = await refusal_of(login.redeemed({"code": "x" * 8_192}))
    assert error == "invalid_grant", "the request reached the provider"


@pytest.mark.limit("claims of a user from a provider")
async def test_openid_claims_are_limited(provider, login):
    provider.told = lambda claims: {**claims, "about": "x" * 1_025, "small": "x" * 1_024}
    identity, _ = await login.redeemed()
    assert "about" not in identity.claims
    assert "small" in identity.claims
    provider.told = lambda claims: {**claims, **{f"n{each}": "x" * 1_000 for each in range(33)}}
    with pytest.raises(UpstreamUnavailableError, match="more than 32,768 characters"):
        await login.redeemed()
    provider.told = lambda claims: {**claims, "about": "x" * 2_000}
    async with login_at(UpstreamProvider.openid(provider.url, *fake_idp.CLIENT, claims=["about"])) as naming:
        wanted, _ = await naming.redeemed()
    assert len(str(wanted.claims["about"])) == 2_000


async def test_openid_userinfo_of_another_user_is_rejected(provider, login):
    for sub in ("sub-of-bob", None, ["sub-of-ada"], "", 7, "SUB-OF-ADA", "sub-of-ada "):
        provider.told = lambda claims, sub=sub: {**claims, "sub": sub}
        with pytest.raises(UpstreamUnavailableError, match="another user"):
            await login.redeemed()


async def test_openid_identify_with_ended_token_is_rejected(provider, login):
    _, tokens = await login.redeemed()
    provider.end("ada")
    assert (await refusal_of(login.upstream.provider.identify(tokens)))[0] == "invalid_token"
    assert provider.asked[fake_idp.USERINFO] == 2


@each_row("id_", [None, True, 1.5, "", [], {"id": 1}, "a\nb"])
async def test_oauth_subject_invalid_is_rejected(provider, id_):
    provider.told = lambda claims: {**claims, "id": id_}
    upstream = UpstreamProvider.oauth(
        "https://chat.example.com",
        *fake_idp.CLIENT,
        authorization_endpoint=f"{provider.url}/authorize",
        token_endpoint=f"{provider.url}/token",
        userinfo_endpoint=f"{provider.url}/userinfo",
        subject_claim="id",
    )
    async with login_at(upstream) as login:
        with pytest.raises(UpstreamUnavailableError, match="returned no valid user ID"):
            await login.redeemed()


@pytest.fixture
def site() -> Iterator[fake_idp.GitHubSite]:
    with fake_idp.github() as site:
        yield site


@pytest.fixture
async def github_login(site: fake_idp.GitHubSite) -> AsyncIterator[fake_idp.UpstreamLogin]:
    async with login_at(UpstreamProvider.github(*fake_idp.CLIENT, url=site.url)) as login:
        yield login


async def test_github_login_returns_identity(site, github_login):
    assert (await github_login.url()).startswith(f"{site.url}/login/oauth/authorize?")
    assert await authorization_query(github_login) == QUERY | {"scope": "read:user"}
    assert not site.asked, "no metadata request is sent"
    identity, tokens = await github_login.redeemed()
    assert identity.subject == "1815"
    assert identity.claims["login"] == "ada"
    assert {"email", "plan", "two_factor_authentication"}.isdisjoint(identity.claims)
    assert tokens.scopes == ("read:user",)
    assert (tokens.refresh_token, tokens.expires) == (None, None)
    assert site.user_of(tokens.access_token) == "ada"
    assert github_login.upstream.issuer == f"{site.url}/login/oauth"


async def test_github_callback_iss_is_checked(site, github_login):
    answer = await github_login.answered()
    del answer["iss"]
    for issuer in ("https://github.com/login/oauth", "https://github.com"):
        for more in ({}, {"error": "access_denied"}):
            params = {**answer, "iss": issuer, **more}
            assert "another issuer" in str(await refusal_of(github_login.redeemed(params)))
    assert not site.forms
    assert (await github_login.redeemed(answer))[0].subject == "1815"
    async with login_at(UpstreamProvider.github(*fake_idp.CLIENT)) as at_github_com:
        refusal = await refusal_of(at_github_com.redeemed({"code": "a", "state": "b"}))
        assert "another issuer" in str(refusal), "github.com always sends iss"


async def test_github_token_is_checked(site, github_login):
    provider = github_login.upstream.provider
    identity, tokens = await github_login.redeemed()
    site.users["ada"]["name"] = "Ada Lovelace"
    again = await provider.identify(tokens)
    assert (again.subject, again.claims["name"]) == (identity.subject, "Ada Lovelace")
    site.end("ada")
    assert (await refusal_of(provider.identify(tokens)))[0] == "invalid_token"
    assert (await refusal_of(provider.refresh(tokens)))[0] == "invalid_grant"


# Invalid, slow and missing answers of a provider, and secrets in errors and logs


TOKENS = {"access_token": "a", "token_type": "Bearer"}


def only(path: str, answer: Response) -> Callable[[Request], Response | None]:
    return lambda request: answer if request.url.path == path else None


def json_text(text: str | bytes, **headers: str) -> Response:
    return Response(text, media_type="application/json", headers=headers)


TOO_LONG = (json_text("x" * (MAX_DOCUMENT + 1)), "more than the maximum of 524,288 bytes")
INVALID_MEMBERS = [
    ("access_token", ["", 7, "a b", "a\r\nX-Evil: b", "x" * 16_385], "a missing or invalid token"),
    ("refresh_token", [7, ""], r"\(refresh_token\)"),
    ("token_type", ["DPoP", "mac", None], "not a bearer token"),
    ("expires_in", [-1, "soon", 1e12, True], "expires_in"),
    ("scope", [7, ["openid"], "a\nb", "a " * 2_000], r"\(scope\)"),
]


@pytest.mark.slow
@each_row(("answer", "problem"), [
    *((Response(status_code=status), f"responded with HTTP {status}") for status in (500, 429)),
    (Response(status_code=204), "JSON object"),
    (RedirectResponse("/elsewhere"), "HTTP 307"),
    (HTMLResponse("<h1>Sign in</h1>"), r"JSON object .*\(text/html\)"),
    (HTMLResponse("<h1>Forbidden</h1>", 403), r"text/html.*HTTP 403"),
    (PlainTextResponse("access_token=a&token_type=bearer"), r"JSON object .*\(text/plain\)"),
    *((json_text(text), "JSON object") for text in (
        '["a"]', "null", '{"access_token": "a", "access_token": "b"}', b"\xff\xfe",
    )),
    TOO_LONG,
    (json_text(b"x", **{"Content-Encoding": "br"}), "a Content-Encoding that was not requested"),
    (json_text(b"this is no gzip", **{"Content-Encoding": "gzip"}), "cannot be decompressed"),
    (JSONResponse({}), "a missing or invalid token"),
    *((JSONResponse(TOKENS, status), f"responded with HTTP {status}") for status in (201, 400)),
    *(
        (JSONResponse({**TOKENS, name: value}), problem)
        for name, values, problem in INVALID_MEMBERS
        for value in values
    ),
    (JSONResponse({"error": "invalid_client"}, 401), "Check client_id"),
    (JSONResponse({"error": "unauthorized_client"}, 403), "Check client_id"),
    *((JSONResponse({"error": error}, 400), "is temporarily unavailable") for error in (
        "temporarily_unavailable", "slow_down", {"code": 1}, "",
    )),
])  # fmt: skip
async def test_token_response_invalid_is_unavailable(provider, login, answer, problem):
    tokens = UpstreamTokens("access", "refresh", None, ())
    provider.instead = only(fake_idp.TOKEN, answer)
    for asking in (login.redeemed({"code": "a"}), login.upstream.provider.refresh(tokens)):
        with pytest.raises(UpstreamUnavailableError, match=problem):
            await asking
    assert not provider.asked["/elsewhere"]


@each_row("answer", [json_text("eyJ.eyJ.x"), Response(status_code=403), RedirectResponse("/"), TOO_LONG[0]])
async def test_userinfo_response_invalid_is_unavailable(provider, login, answer):
    provider.instead = only(fake_idp.USERINFO, answer)
    with pytest.raises(UpstreamUnavailableError, match="userinfo"):
        await login.redeemed()


@each_row(("body", "error", "description"), [
    ({"error": "invalid_grant"}, "invalid_grant", ""),
    ({"error": "invalid_grant", "error_description": 7}, "invalid_grant", ""),
    ({"error": "a", "error_description": 'no "such" \\ \r\nX: é'}, "a", "no ?such? ? ??X: ?"),
    ({"error": "a", "error_description": "x" * 5_000}, "a", "x" * 300),
    ({"error": "a", "error_description": "User 'ada@example.com' may not"}, "a", "User '...' may not"),
    ({"error": "x" * 5_000}, "x" * 300, ""),
    ({"error": "é\n"}, "??", ""),
])  # fmt: skip
async def test_provider_error_text_is_limited(provider, login, body, error, description):
    provider.repair()
    answer = await login.answered()
    provider.instead = only(fake_idp.TOKEN, JSONResponse(body, 400))
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.redeemed(answer)
    assert (caught.value.error, caught.value.description) == (error, description)
    with pytest.raises(UpstreamRefusedError) as returned:
        await login.redeemed({name: str(value) for name, value in body.items()})
    assert returned.value.error == error


@pytest.mark.parametrize("path", [fake_idp.OPENID, fake_idp.TOKEN, fake_idp.KEYS, fake_idp.USERINFO])
async def test_provider_slow_times_out(provider, login, path):
    answer = await login.answered()
    async with httpx2.AsyncClient(timeout=None) as client:
        upstream = UpstreamProvider.openid(provider.url, *fake_idp.CLIENT, timeout=0.5, http_client=client)
        provider.held = path
        provider.is_open.clear()
        with pytest.raises(UpstreamUnavailableError, match=r"did not respond within 0\.5 s"):
            await fake_idp.UpstreamLogin(upstream).redeemed(answer)
        provider.repair()
        await upstream.provider.aclose()


# ctx.upstream_token: the user's own provider token in tools, tasks and threads


STATIC = "a-token-of-a-machine-that-is-long-enough-0123456789"
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"


def make_server(auth: TokenVerifier | Sequence[TokenVerifier] | None) -> Server:
    server = Server("notes", auth=auth, secret_key=SECRET)

    @server.tool
    async def token(ctx: Context) -> str:
        return await ctx.upstream_token("example")

    @server.tool
    def token_in_a_thread(ctx: Context) -> str:
        return ctx.sync.upstream_token("example")

    @server.tool(task=True)
    async def token_of_a_task(ctx: Context) -> str:
        return await ctx.upstream_token("example")

    return server


@asynccontextmanager
async def logged_in(
    revision: str = STATELESS, *others: TokenVerifier, token: str | None = None, lifetime: float = 3600.0
) -> AsyncIterator[tuple[FakeUpstream, Client]]:
    """Log a user in with a provider token of this lifetime; gives the provider and the user's client."""
    upstream = FakeUpstream(time.time)
    upstream.lifetime = lifetime
    proxy = OAuthProxy(upstream)
    server = make_server([proxy, *others] if others else proxy)
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        async with httpx2.AsyncClient(base_url=origin) as browser:
            tokens: dict[str, Any] = await ProxyFlow(browser, upstream.visit).tokens()
        upstream.lifetime = 3600.0
        token = token or tokens["access_token"]
        async with Client(f"{origin}/mcp", token=token, protocol_version=revision) as client:
            yield upstream, client


async def test_token_for_in_tool_thread_and_task(revision):
    async with logged_in(revision) as (upstream, client):
        first = (await client.call_tool("token")).text
        assert upstream.live[first] == "ada"
        for tool in ("token_in_a_thread", "token_of_a_task"):
            assert (await client.call_tool(tool)).text == first


async def test_token_for_with_provider_down_is_tool_error():
    async with logged_in(lifetime=0.0) as (upstream, client):
        upstream.down.add("refresh")
        result = await client.call_tool("token")
        assert result.is_error
        assert result.text == "example does not respond. Try again later"


async def test_token_for_with_ended_login_is_401(revision):
    async with logged_in(revision, lifetime=0.0) as (upstream, client):
        upstream.live.clear()
        with pytest.raises(AuthorizationError) as caught:
            await client.call_tool("token")
    assert caught.value.status == 401
    assert "invalid_token" in caught.value.challenge
    assert upstream.handed_out[0] not in str(caught.value)


async def test_token_for_in_process_is_error():
    upstream = FakeUpstream(time.time)
    async with connect(make_server(OAuthProxy(upstream))) as client:
        result = await client.call_tool("token")
        assert result.text == "this request needs a login with example. Log in there first"
    assert upstream.asked == []


async def test_token_for_principal_of_another_verifier():
    async with logged_in(STATELESS, StaticTokens({STATIC: "backup"}), token=STATIC) as (_, client):
        result = await client.call_tool("token")
        assert result.is_error
        assert result.text == "this request needs a login with Example. Log in there first"


async def test_token_for_without_proxy_is_logged(caplog):
    async with connect(make_server(None)) as client:
        assert (await client.call_tool("token")).is_error
    assert "Server(auth=OAuthProxy(UpstreamProvider.github(...)))" in caplog.text


async def test_two_providers_of_one_name_raise():
    with pytest.raises(ValueError, match="two providers have the name 'example'"):
        make_server([OAuthProxy(FakeUpstream(time.time)), OAuthProxy(FakeUpstream(time.time))])
