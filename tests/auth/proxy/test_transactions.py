"""Logins in progress at an OAuthProxy: bound to one browser, sealed, used once."""

from __future__ import annotations

import secrets

import httpx2
import pytest

from tests.helpers.oauth_flow import PROXY_ORIGIN, ProxyServer, form_of, redirect_params

pytestmark = pytest.mark.anyio

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


async def test_page_and_login_may_take_ten_minutes_each(proxy, flow):
    page = await flow.page()
    proxy.clock.now += 599
    forward = await flow.browser.post("/authorize", data=form_of(page))
    url = await proxy.upstream.visit(forward.headers["location"])
    proxy.clock.now += 599
    assert "code" in redirect_params(await flow.back(url))


@pytest.mark.parametrize("value", ["", "x", "A" * 4000])
async def test_callback_with_unsealed_cookie_is_rejected(proxy, flow, value):
    url = await flow.at_provider()
    [name] = logins_in(flow.browser)
    flow.browser.cookies.set(name, value, domain="mcp.example.com", path="/")
    assert (await flow.back(url)).status_code == 400


async def test_callback_at_another_issuer_is_rejected():
    one = ProxyServer()
    other = ProxyServer(one.upstream, issuer=f"{PROXY_ORIGIN}/other", kept={"shared": one.site.shared})
    flow = one.flow()
    url = await flow.at_provider()
    moved = other.browser()
    for name, value in flow.browser.cookies.items():
        moved.cookies.set(name, value)
    response = await moved.get(url.replace("/callback", "/other/callback"))
    assert response.status_code == 400
    assert "code" in redirect_params(await flow.back(url))


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


async def test_abandoned_logins_keep_latest_cookies(proxy):
    browser = proxy.browser()
    urls = [await proxy.flow(browser).at_provider() for _ in range(6)]
    assert len(logins_in(browser)) == 4
    assert sum(len(browser.cookies[name]) for name in logins_in(browser)) <= 6000
    assert (await browser.get(urls[0])).status_code == 400
    for url in urls[2:]:
        assert "code" in redirect_params(await browser.get(url))
    assert logins_in(browser) == []


async def test_cookie_on_loopback_is_not_secure():
    proxy = ProxyServer(origin="http://127.0.0.1:8000")
    forward = await proxy.flow().answered()
    [cookie] = forward.headers.get_list("set-cookie")
    assert cookie.startswith("mcpkit-login-")
    assert "Secure" not in cookie
    assert "code" in redirect_params(await proxy.flow().back())
