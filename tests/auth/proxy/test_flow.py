"""Logins through an OAuthProxy in memory, its configuration, its cookies, and what it stores."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpkit.auth import InvalidTokenError, OAuthProxy, VerifierUnavailableError
from mcpkit.state.memory import Memory
from mcpkit.storage import Sqlite
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import (
    PROXY_MCP,
    PROXY_ORIGIN,
    FakeUpstream,
    ProxyServer,
    form_of,
    redirect_params,
    site,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("resource", [PROXY_MCP, None])
async def test_proxy_login_returns_own_tokens(proxy, resource):
    flow = proxy.flow(resource=resource, scope="notes:write")
    answer = redirect_params(await flow.back())
    login = await flow.begun()
    assert answer["state"] == login.query["state"]
    assert answer["iss"] == PROXY_ORIGIN

    response = await flow.redeemed(answer["code"])
    tokens = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert tokens["scope"] == "notes:write"
    assert not [secret for secret in proxy.upstream.handed_out if secret in response.text]

    grant = await proxy.granted(tokens)
    principal = grant.principal
    assert principal.id == "https://id.example.com#sub=ada"
    assert (principal.issuer, principal.subject) == ("https://id.example.com", "ada")
    assert (principal.client_id, principal.scopes) == (login.client_id, {"notes:write"})
    assert principal.claims["login"] == "ada"
    assert not [secret for secret in proxy.upstream.handed_out if secret in str(dict(principal.claims))]


async def test_proxy_legs_have_separate_challenge_and_state(proxy, flow):
    await flow.back()
    login, [upstream] = await flow.begun(), proxy.upstream.queries
    assert upstream["code_challenge"] != login.query["code_challenge"]
    assert upstream["state"] != login.query["state"]
    assert upstream["redirect_uri"] == f"{PROXY_ORIGIN}/callback"


async def test_proxy_asks_provider_only_after_consent(proxy, flow):
    page = await flow.page()
    assert page.status_code == 200
    assert proxy.upstream.asked == []
    denied = redirect_params(await flow.answered("deny"))
    assert (denied["error"], denied["iss"]) == ("access_denied", PROXY_ORIGIN)
    assert proxy.upstream.asked == []


def make_proxy(**options: Any) -> OAuthProxy:
    return OAuthProxy(FakeUpstream(Clock()), **options)


@pytest.mark.parametrize(
    ("origin", "issuer", "problem"),
    [
        ("http://mcp.example.com", None, "public_url is not encrypted"),
        (PROXY_ORIGIN, "http://mcp.example.com", "the issuer of OAuthProxy is not encrypted"),
        (PROXY_ORIGIN, "https://id.example.com", "on the origin of public_url"),
        (PROXY_ORIGIN, f"{PROXY_ORIGIN}/login?tenant=1", "on the origin of public_url"),
        (PROXY_ORIGIN, f"{PROXY_ORIGIN}/login#x", "fragment"),
        (PROXY_ORIGIN, "mcp.example.com", "not a valid https URL"),
    ],
)
def test_proxy_url_or_issuer_invalid_raises(origin, issuer, problem):
    with pytest.raises(ValueError, match=problem):
        make_proxy(issuer=issuer).bind(site(origin=origin))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"allow": {"ada"}}, "allow= must be a function"),
        ({"token_lifetime": 0}, "above 0"),
        ({"token_lifetime": "1h"}, "a number of seconds above 0, got '1h'"),
        ({"title": ""}, "title"),
        ({"picture": b"no picture"}, "picture"),
    ],
)
def test_proxy_options_invalid_raise(options, problem):
    with pytest.raises((TypeError, ValueError), match=problem):
        make_proxy(**options)


async def test_proxy_serves_one_site():
    one = make_proxy()
    with pytest.raises(RuntimeError, match="bind"):
        one.routes()
    one.bind(site(origin=PROXY_ORIGIN))
    one.bind(site(origin=PROXY_ORIGIN))
    for other in (site(origin="https://other.example.com"), site(origin=PROXY_ORIGIN)._replace(name="tasks")):
        with pytest.raises(ValueError, match=f"already serves notes at {PROXY_ORIGIN}/mcp"):
            one.bind(other)
    moved = site(origin=PROXY_ORIGIN)._replace(public_url=f"{PROXY_ORIGIN}/notes/mcp")
    with pytest.raises(ValueError, match=f"cannot serve notes at {PROXY_ORIGIN}/notes/mcp"):
        one.bind(moved)


async def test_proxy_issuer_with_path():
    proxy = ProxyServer(issuer=f"{PROXY_ORIGIN}/login")
    flow = proxy.flow(path="/login")
    answer = redirect_params(await flow.back())
    assert answer["iss"] == f"{PROXY_ORIGIN}/login"
    assert proxy.upstream.queries[0]["redirect_uri"] == f"{PROXY_ORIGIN}/login/callback"
    assert (await flow.redeemed(answer["code"])).status_code == 200


OLD, NEW = "the first secret of the tests", "the second secret of the tests"


@asynccontextmanager
async def at(file: Path, upstream: FakeUpstream | None = None, **kept: Any) -> AsyncIterator[ProxyServer]:
    with closing(Sqlite(file)) as shared:
        yield ProxyServer(upstream, kept={"shared": shared, **kept}, token_lifetime=100_000.0)


async def test_proxy_login_survives_secret_rotation(tmp_path):
    file = tmp_path / "notes.db"
    async with at(file, secret=OLD) as first:
        flow = first.flow()
        tokens = await flow.tokens()
        begun = first.flow()
        url = await begun.at_provider()
        cookies, upstream = begun.browser.cookies, first.upstream
    async with at(file, upstream, secret=[NEW, OLD]) as second:
        begun.browser = begun.client = second.browser()
        begun.browser.cookies = cookies
        assert "code=" in (await begun.back(url)).headers["location"]
        assert (await second.granted(tokens)).principal.subject == "ada"
        flow.browser = flow.client = second.browser()
        tokens = (await flow.refreshed(tokens)).json()
    async with at(file, upstream, secret=NEW) as third:
        assert await third.token_for(tokens) in upstream.live
    async with at(file, upstream, secret=OLD) as wrong:
        with pytest.raises((InvalidTokenError, VerifierUnavailableError)):
            await wrong.granted(tokens)


async def test_proxy_of_another_provider_rejects_grant():
    shared = Memory()
    one = ProxyServer(kept={"shared": shared})
    other = ProxyServer(FakeUpstream(one.clock, name="other"), kept={"shared": shared})
    flow = one.flow()
    tokens = await flow.tokens()
    flow.browser = flow.client = other.browser()
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert other.upstream.asked == []


PREFIX = "__Host-mcpkit-login-"


def logins_in(browser: httpx2.AsyncClient) -> list[str]:
    return [name for name in browser.cookies if name.startswith(PREFIX)]


async def test_consent_form_sent_twice_gives_one_code(proxy, flow):
    page = await flow.page()
    form = form_of(page)
    forwards = [await flow.browser.post("/authorize", data=form) for _ in range(2)]
    urls = [await proxy.upstream.visit(each.headers["location"]) for each in forwards]
    assert "code" in redirect_params(await flow.back(urls[0]))
    second = await flow.back(urls[1])
    assert second.status_code == 400
    assert proxy.upstream.asked.count("redeem") == 1


async def test_callback_after_ten_minutes_is_rejected(proxy, flow):
    url = await flow.at_provider()
    proxy.clock.now += 600
    assert (await flow.back(url)).status_code == 400


@pytest.mark.parametrize("value", ["", "x", "A" * 4000])
async def test_callback_with_unsealed_cookie_is_rejected(proxy, flow, value):
    url = await flow.at_provider()
    [name] = logins_in(flow.browser)
    flow.browser.cookies.set(name, value, domain="mcp.example.com", path="/")
    assert (await flow.back(url)).status_code == 400


async def test_long_request_uses_two_cookies(proxy):
    state = secrets.token_urlsafe(2500)
    flow = proxy.flow(state=state)
    url = await flow.at_provider()
    assert len(logins_in(flow.browser)) == 2
    assert all(len(flow.browser.cookies[name]) <= 3800 for name in logins_in(flow.browser))
    answer = redirect_params(await flow.back(url))
    assert answer["state"] == state
    assert "code" in answer
    assert logins_in(flow.browser) == []


async def test_request_too_long_for_cookies_is_rejected(proxy):
    flow = proxy.flow(state=secrets.token_urlsafe(6000))
    answer = redirect_params(await flow.answered())
    assert answer["error"] == "invalid_request"
    assert logins_in(flow.browser) == []
