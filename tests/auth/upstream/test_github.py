"""Users who log in with GitHub."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcpkit.auth import Upstream
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from tests.helpers.github_site import APPLICATION, TOKEN, USER, GitHubSite, github
from tests.helpers.upstream_login import UpstreamLogin
from tests.helpers.upstream_site import CLIENT

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


async def test_a_user_logs_in(site: GitHubSite, login: UpstreamLogin) -> None:
    identity, tokens = await login.redeemed()

    assert identity.subject == "1815"
    assert identity.claims["login"] == "ada"
    assert {"email", "plan", "two_factor_authentication"}.isdisjoint(identity.claims)
    assert tokens.scopes == ("read:user",)
    assert (tokens.refresh_token, tokens.expires) == (None, None)
    assert site.user_of(tokens.access_token) == "ada"
    assert (login.upstream.issuer, login.upstream.name) == (f"{site.url}/login/oauth", "github")


async def test_what_the_browser_is_sent_with(site: GitHubSite, upstream: Upstream) -> None:
    url = await UpstreamLogin(upstream).url()

    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
    assert url.startswith(f"{site.url}/login/oauth/authorize?")
    assert asked.pop("code_challenge")
    assert asked == {
        "response_type": "code",
        "client_id": "proxy",
        "redirect_uri": "http://127.0.0.1:1/callback",
        "scope": "read:user",
        "state": "the-state",
        "code_challenge_method": "S256",
    }
    assert not site.asked, "nobody is asked where GitHub is"


async def test_this_server_says_who_it_is_in_the_form(site: GitHubSite, login: UpstreamLogin) -> None:
    await login.redeemed()

    [(path, form)] = site.forms
    assert path == TOKEN
    assert form["client_secret"] == CLIENT[1]
    assert form["code_verifier"] == login.verifier


async def test_scopes_come_with_commas(site: GitHubSite) -> None:
    upstream = Upstream.github(*CLIENT, url=site.url, scopes=["repo", "gist"])
    _, tokens = await UpstreamLogin(upstream).redeemed()
    site.narrows = lambda scopes: []
    _, narrowed = await UpstreamLogin(upstream, user="bob").redeemed()
    await upstream.provider.aclose()

    assert tokens.scopes == ("repo", "gist")
    assert narrowed.scopes == ()


async def test_an_error_with_the_status_200_is_one(site: GitHubSite, login: UpstreamLogin) -> None:
    answer = await login.answered()
    await login.redeemed(answer)
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.redeemed(answer)

    assert caught.value.error == "bad_verification_code"
    assert caught.value.description == "The code passed is incorrect or expired."


async def test_a_user_says_no(login: UpstreamLogin) -> None:
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.redeemed(await login.answered("deny"))

    assert (caught.value.error, caught.value.description) == ("access_denied", "the user said no")


@pytest.mark.parametrize("named", [None, "https://github.com/login/oauth", "https://github.com"])
async def test_who_answers_is_who_was_asked(
    site: GitHubSite, login: UpstreamLogin, named: str | None
) -> None:
    answer = {**(await login.answered()), "iss": named}
    told = {name: value for name, value in answer.items() if value is not None}
    if named is None:
        assert (await login.redeemed(told))[0].subject == "1815"
        return
    for each in (told, {**told, "error": "access_denied"}):
        with pytest.raises(UpstreamRefusedError, match="another issuer"):
            await login.redeemed(each)
    assert not site.forms


async def test_github_itself_always_says_who_it_is() -> None:
    upstream = Upstream.github(*CLIENT)
    with pytest.raises(UpstreamRefusedError, match="another issuer"):
        await UpstreamLogin(upstream).redeemed({"code": "a", "state": "b"})

    assert upstream.issuer == "https://github.com/login/oauth"
    assert upstream.is_public


async def test_a_wrong_secret_is_no_users_fault(site: GitHubSite) -> None:
    upstream = Upstream.github("proxy", "another secret", url=site.url)
    with pytest.raises(UpstreamUnavailableError, match="look at client_id, client_secret") as caught:
        await UpstreamLogin(upstream).redeemed()
    await upstream.provider.aclose()

    assert "another secret" not in str(caught.value)


async def test_a_token_that_never_expires_is_looked_at(site: GitHubSite, login: UpstreamLogin) -> None:
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


async def test_too_many_requests_end_nothing(site: GitHubSite, login: UpstreamLogin) -> None:
    _, tokens = await login.redeemed()
    for status in (403, 429, 500):
        site.break_down(status)
        with pytest.raises(UpstreamUnavailableError, match=f"has answered {status}"):
            await login.upstream.provider.identify(tokens)


async def test_tokens_that_expire_are_refreshed_and_rotate(site: GitHubSite, login: UpstreamLogin) -> None:
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


async def test_a_token_is_deleted(site: GitHubSite, login: UpstreamLogin) -> None:
    _, tokens = await login.redeemed()
    await login.upstream.provider.revoke(tokens)
    await login.upstream.provider.revoke(tokens)  # and may be again

    assert site.revoked == [tokens.access_token]
    assert site.asked[APPLICATION] == 2
    assert site.user_of(tokens.access_token) is None


async def test_a_login_whose_token_has_expired_is_deleted_too(site: GitHubSite, login: UpstreamLogin) -> None:
    site.seconds, site.refreshes = 28_800, True
    _, tokens = await login.redeemed()
    site.expire("ada")
    tokens = replace(tokens, expires=time.time())
    await login.upstream.provider.revoke(tokens)
    await login.upstream.provider.revoke(tokens)  # there is nothing left

    assert len(site.revoked) == 1
    assert site.logins[0].is_over


async def test_a_deletion_that_fails_is_said(site: GitHubSite, login: UpstreamLogin) -> None:
    _, tokens = await login.redeemed()
    for answer in (Response(status_code=503), JSONResponse({"message": "Requires authentication"}, 401)):
        site.instead = lambda _, answer=answer: answer
        with pytest.raises(UpstreamUnavailableError, match=f"has answered {answer.status_code}"):
            await login.upstream.provider.revoke(tokens)


@pytest.mark.parametrize(
    "profile",
    [
        {"id": None},
        {"id": True},
        {"id": "1815"},
        {"id": 1.5},
        {"id": [1815]},
        {"login": "ada"},
    ],
)
async def test_who_has_no_number_is_nobody(
    site: GitHubSite, login: UpstreamLogin, profile: dict[str, Any]
) -> None:
    def instead(request: Request) -> Response | None:
        return JSONResponse(profile) if request.url.path == USER else None

    site.instead = instead
    with pytest.raises(UpstreamUnavailableError, match="does not say who has logged in"):
        await login.redeemed()


@pytest.mark.parametrize(
    ("url", "authorize", "api"),
    [
        ("https://github.com", "https://github.com/login/oauth/authorize", "https://api.github.com/user"),
        (
            "https://octo.ghe.com/",
            "https://octo.ghe.com/login/oauth/authorize",
            "https://api.octo.ghe.com/user",
        ),
        (
            "https://git.example.com",
            "https://git.example.com/login/oauth/authorize",
            "https://git.example.com/api/v3/user",
        ),
    ],
)
async def test_where_github_is(url: str, authorize: str, api: str) -> None:
    import httpx2

    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(
            200, json={"id": 1, "login": "ada", "access_token": "a", "token_type": "bearer"}
        )

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        upstream = Upstream.github(*CLIENT, url=url, http_client=client)
        assert (await UpstreamLogin(upstream).url()).startswith(f"{authorize}?")
        await UpstreamLogin(upstream).redeemed({"code": "a", "iss": upstream.issuer})
        await upstream.provider.aclose()
        assert not client.is_closed
    assert [str(each.url) for each in asked] == [authorize.replace("/authorize", "/access_token"), api]
    assert asked[1].headers["authorization"] == "Bearer a"


def test_urls_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="not encrypted"):
        Upstream.github(*CLIENT, url="http://git.example.com")
    with pytest.raises(TypeError, match="client_secret must be a text"):
        Upstream.github("proxy", None)  # type: ignore[arg-type]
