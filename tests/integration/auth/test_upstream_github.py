"""Logins with GitHub, from the side of the proxy."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from mcpkit.auth import UpstreamProvider
from mcpkit.auth.upstream.errors import UpstreamRefusedError
from tests.helpers.fake_idp import CLIENT, GITHUB_APPLICATION, GitHubSite, UpstreamLogin, github

pytestmark = pytest.mark.anyio


@pytest.fixture
def site() -> Iterator[GitHubSite]:
    with github() as serving:
        yield serving


@pytest.fixture
async def upstream(site: GitHubSite) -> AsyncIterator[UpstreamProvider]:
    made = UpstreamProvider.github(*CLIENT, url=site.url)
    yield made
    await made.provider.aclose()


@pytest.fixture
def login(upstream: UpstreamProvider) -> UpstreamLogin:
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
    upstream = UpstreamProvider.github(*CLIENT)
    with pytest.raises(UpstreamRefusedError, match="another issuer"):
        await UpstreamLogin(upstream).redeemed({"code": "a", "state": "b"})

    assert upstream.issuer == "https://github.com/login/oauth"
    assert upstream.is_public


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
