"""Logins with GitHub, from the side of the proxy."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcpkit.auth import Upstream
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from tests.helpers.fake_idp import CLIENT, GITHUB_APPLICATION, GITHUB_USER, GitHubSite, UpstreamLogin, github
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


@pytest.fixture
def site() -> Iterator[GitHubSite]:
    with github() as serving:
        yield serving


@pytest.fixture
async def upstream(site: GitHubSite) -> AsyncIterator[Upstream]:
    made = Upstream.github(*CLIENT, url=site.url)
    yield made
    await made.provider.aclose()


@pytest.fixture
def login(upstream: Upstream) -> UpstreamLogin:
    return UpstreamLogin(upstream)


async def test_github_login_returns_identity(site, login):
    identity, tokens = await login.redeemed()

    assert identity.subject == "1815"
    assert identity.claims["login"] == "ada"
    assert {"email", "plan", "two_factor_authentication"}.isdisjoint(identity.claims)
    assert tokens.scopes == ("read:user",)
    assert (tokens.refresh_token, tokens.expires) == (None, None)
    assert site.user_of(tokens.access_token) == "ada"
    assert (login.upstream.issuer, login.upstream.name) == (f"{site.url}/login/oauth", "github")


async def test_github_authorization_url(site, upstream):
    url = await UpstreamLogin(upstream).url()

    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
    assert url.startswith(f"{site.url}/login/oauth/authorize?")
    assert query.pop("code_challenge")
    assert query == {
        "response_type": "code",
        "client_id": "proxy",
        "redirect_uri": "http://127.0.0.1:1/callback",
        "scope": "read:user",
        "state": "the-state",
        "code_challenge_method": "S256",
    }
    assert not site.asked, "no metadata request is sent"


async def test_github_scopes_are_separated_by_commas(site):
    upstream = Upstream.github(*CLIENT, url=site.url, scopes=["repo", "gist"])
    _, tokens = await UpstreamLogin(upstream).redeemed()
    site.narrows = lambda scopes: []
    _, narrowed = await UpstreamLogin(upstream, user="bob").redeemed()
    await upstream.provider.aclose()

    assert tokens.scopes == ("repo", "gist")
    assert narrowed.scopes == ()


async def test_github_error_with_status_200(site, login):
    answer = await login.answered()
    await login.redeemed(answer)
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.redeemed(answer)

    assert caught.value.error == "bad_verification_code"
    assert caught.value.description == "The code passed is incorrect or expired."


@pytest.mark.parametrize("named", [None, "https://github.com/login/oauth", "https://github.com"])
async def test_github_callback_iss_is_checked(site, login, named):
    answer = {**(await login.answered()), "iss": named}
    params = {name: value for name, value in answer.items() if value is not None}
    if named is None:
        assert (await login.redeemed(params))[0].subject == "1815"
        return
    for each in (params, {**params, "error": "access_denied"}):
        with pytest.raises(UpstreamRefusedError, match="another issuer"):
            await login.redeemed(each)
    assert not site.forms


async def test_github_com_requires_iss():
    upstream = Upstream.github(*CLIENT)
    with pytest.raises(UpstreamRefusedError, match="another issuer"):
        await UpstreamLogin(upstream).redeemed({"code": "a", "state": "b"})

    assert upstream.issuer == "https://github.com/login/oauth"
    assert upstream.is_public


async def test_github_wrong_secret_is_unavailable(site):
    upstream = Upstream.github("proxy", "another secret", url=site.url)
    with pytest.raises(UpstreamUnavailableError, match="look at client_id, client_secret") as caught:
        await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()

    assert "another secret" not in str(caught.value)


async def test_github_token_is_checked(site, login):
    identity, tokens = await login.redeemed()
    site.users["ada"]["name"] = "Ada Lovelace"

    again = await login.upstream.provider.identify(tokens)
    assert (again.subject, again.claims["name"]) == (identity.subject, "Ada Lovelace")
    site.end("ada")
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.upstream.provider.identify(tokens)
    assert caught.value.error == "invalid_token"
    with pytest.raises(UpstreamRefusedError) as refused:
        await login.upstream.provider.refresh(tokens)
    assert refused.value.error == "invalid_grant"


async def test_github_rate_limit_is_unavailable(site, login):
    _, tokens = await login.redeemed()
    for status in (403, 429, 500):
        site.break_down(status)
        with pytest.raises(UpstreamUnavailableError, match=f"has answered {status}"):
            await login.upstream.provider.identify(tokens)


async def test_github_refresh_rotates(site, login):
    site.seconds, site.refreshes = 28_800, True
    _, tokens = await login.redeemed()
    renewed = await login.upstream.provider.refresh(tokens)

    assert renewed.access_token != tokens.access_token
    assert renewed.refresh_token not in {None, tokens.refresh_token}
    assert renewed.expires is not None
    assert 28_700 < renewed.expires - time.time() <= 28_800
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.upstream.provider.refresh(tokens)
    assert caught.value.error == "invalid_grant"
    assert "bad_refresh_token" in caught.value.description


async def test_github_revoke_deletes_token(site, login):
    _, tokens = await login.redeemed()
    await login.upstream.provider.revoke(tokens)
    await login.upstream.provider.revoke(tokens)  # and may be again

    assert site.revoked == [tokens.access_token]
    assert site.asked[GITHUB_APPLICATION] == 2
    assert site.user_of(tokens.access_token) is None


async def test_github_revoke_expired_token(site, login):
    site.seconds, site.refreshes = 28_800, True
    _, tokens = await login.redeemed()
    site.expire("ada")
    tokens = replace(tokens, expires=time.time())
    await login.upstream.provider.revoke(tokens)
    await login.upstream.provider.revoke(tokens)  # there is nothing left

    assert len(site.revoked) == 1
    assert site.logins[0].is_over


async def test_github_revoke_failure_is_unavailable(site, login):
    _, tokens = await login.redeemed()
    for answer in (Response(status_code=503), JSONResponse({"message": "Requires authentication"}, 401)):
        site.instead = lambda _, answer=answer: answer
        with pytest.raises(UpstreamUnavailableError, match=f"has answered {answer.status_code}"):
            await login.upstream.provider.revoke(tokens)


@each_row(
    "profile", [{"id": None}, {"id": True}, {"id": "1815"}, {"id": 1.5}, {"id": [1815]}, {"login": "ada"}]
)
async def test_github_profile_without_id_is_rejected(site, login, profile):
    def instead(request: Request) -> Response | None:
        return JSONResponse(profile) if request.url.path == GITHUB_USER else None

    site.instead = instead
    with pytest.raises(UpstreamUnavailableError, match="does not say who has logged in"):
        await login.redeemed()


def test_github_options_invalid_raise():
    with pytest.raises(ValueError, match="not encrypted"):
        Upstream.github(*CLIENT, url="http://git.example.com")
    with pytest.raises(TypeError, match="client_secret must be a text"):
        Upstream.github("proxy", None)  # type: ignore[arg-type]
