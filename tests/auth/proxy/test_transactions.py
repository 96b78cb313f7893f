"""Logins that are under way: in one browser, sealed, once, for ten minutes."""

from __future__ import annotations

import secrets

import httpx2
import pytest

from tests.helpers.authority_site import said
from tests.helpers.proxied import ORIGIN, Proxied
from tests.helpers.proxy_flow import form_of

pytestmark = pytest.mark.anyio

PREFIX = "__Host-mcpkit-login-"


def logins_in(browser: httpx2.AsyncClient) -> list[str]:
    """The names of the cookies of logins that a browser has."""
    return [name for name in browser.cookies if name.startswith(PREFIX)]


async def test_another_browser_cannot_come_back() -> None:
    here = Proxied()
    flow = here.flow()
    url = await flow.at_provider()
    response = await here.browser().get(url)
    assert response.status_code == 400
    assert "another browser" in response.text
    assert "redeem" not in here.upstream.asked
    assert "code" in said(await flow.back(url))


async def test_a_login_comes_back_once() -> None:
    here = Proxied()
    flow = here.flow()
    url = await flow.at_provider()
    cookies = dict(flow.browser.cookies)
    assert "code" in said(await flow.back(url))
    assert (await flow.back(url)).status_code == 400
    kept = here.browser()
    for name, value in cookies.items():
        kept.cookies.set(name, value)
    response = await kept.get(url)
    assert response.status_code == 400
    assert "answered before" in response.text
    assert here.upstream.asked.count("redeem") == 1


async def test_one_consent_gives_one_code_however_often_it_is_sent() -> None:
    here = Proxied()
    flow = here.flow()
    page = await flow.page()
    form = form_of(page)
    forwards = [await flow.browser.post("/authorize", data=form) for _ in range(2)]
    urls = [await here.upstream.visit(each.headers["location"]) for each in forwards]
    assert "code" in said(await flow.back(urls[0]))
    second = await flow.back(urls[1])
    assert second.status_code == 400
    assert here.upstream.asked.count("redeem") == 1


async def test_a_login_is_too_old_after_ten_minutes() -> None:
    here = Proxied()
    flow = here.flow()
    url = await flow.at_provider()
    here.clock.now += 600
    assert (await flow.back(url)).status_code == 400


async def test_a_slow_page_and_a_slow_login_may_take_ten_minutes_each() -> None:
    here = Proxied()
    flow = here.flow()
    page = await flow.page()
    here.clock.now += 599
    forward = await flow.browser.post("/authorize", data=form_of(page))
    url = await here.upstream.visit(forward.headers["location"])
    here.clock.now += 599
    assert "code" in said(await flow.back(url))


@pytest.mark.parametrize("value", ["", "x", "A" * 4000])
async def test_what_nobody_has_sealed_is_no_login(value: str) -> None:
    here = Proxied()
    flow = here.flow()
    url = await flow.at_provider()
    [name] = logins_in(flow.browser)
    flow.browser.cookies.set(name, value, domain="mcp.example.com", path="/")
    assert (await flow.back(url)).status_code == 400


async def test_a_login_is_good_under_its_own_id_alone() -> None:
    here = Proxied()
    flow, other = here.flow(), here.flow()
    url, _ = await flow.at_provider(), await other.at_provider()
    [mine], [theirs] = logins_in(flow.browser), logins_in(other.browser)
    stolen = other.browser.cookies[theirs]
    flow.browser.cookies.set(mine, stolen, domain="mcp.example.com", path="/")
    assert (await flow.back(url)).status_code == 400


async def test_a_login_is_good_at_its_own_issuer_alone() -> None:
    one = Proxied()
    other = Proxied(one.upstream, issuer=f"{ORIGIN}/other", kept={"shared": one.site.shared})
    flow = one.flow()
    url = await flow.at_provider()
    moved = other.browser()
    for name, value in flow.browser.cookies.items():
        moved.cookies.set(name, value)
    response = await moved.get(url.replace("/callback", "/other/callback"))
    assert response.status_code == 400
    assert "code" in said(await flow.back(url))


async def test_a_long_request_takes_two_cookies() -> None:
    here = Proxied()
    state = secrets.token_urlsafe(2500)
    flow = here.flow(state=state)
    url = await flow.at_provider()
    assert len(logins_in(flow.browser)) == 2
    assert all(len(flow.browser.cookies[name]) <= 3800 for name in logins_in(flow.browser))
    answer = said(await flow.back(url))
    assert answer["state"] == state
    assert "code" in answer
    assert logins_in(flow.browser) == []


async def test_what_no_cookies_can_hold_is_refused_before_anybody_is_sent_anywhere() -> None:
    here = Proxied()
    flow = here.flow(state=secrets.token_urlsafe(6000))
    answer = said(await flow.answered())
    assert answer["error"] == "invalid_request"
    assert logins_in(flow.browser) == []


async def test_of_abandoned_logins_the_latest_stay() -> None:
    here = Proxied()
    browser = here.browser()
    urls = [await here.flow(browser).at_provider() for _ in range(6)]
    assert len(logins_in(browser)) == 4
    assert sum(len(browser.cookies[name]) for name in logins_in(browser)) <= 6000
    assert (await browser.get(urls[0])).status_code == 400
    for url in urls[2:]:
        assert "code" in said(await browser.get(url))
    assert logins_in(browser) == []


async def test_on_this_machine_no_cookie_takes_https() -> None:
    here = Proxied(origin="http://127.0.0.1:8000")
    forward = await here.flow().answered()
    [cookie] = forward.headers.get_list("set-cookie")
    assert cookie.startswith("mcpkit-login-")
    assert "Secure" not in cookie
    assert "code" in said(await here.flow().back())
