"""Attacks with two browsers, forged forms and consent for another client (confused deputy)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from mcpkit.auth.proxy.transactions import Transaction, Transactions
from tests.auth.proxy.world import EDITOR, EVIL, ORIGIN, World, consented, form_of
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> World:
    return World()


def login_cookie(browser: Any) -> Any:
    [cookie] = [each for each in browser.cookies.jar if "-login-" in each.name]
    return cookie


async def test_consent_of_another_browser_gives_no_login(world, monkeypatch):
    """The attacker consents, and has the victim open the provider's URL that follows (CVE-2026-27124)."""

    async def attack() -> str | None:
        login = await world.client(EVIL)
        async with world.browser("mallory") as attacker, world.browser("ada") as victim:
            captured = (await consented(attacker, login)).headers["location"]
            assert captured.startswith("https://id.example.net/authorize?")
            return await world.holds(login, await victim.follow(await victim.get(captured), until=EVIL))

    assert await attack() is None
    assert world.provider.forms == []  # the victim's code has not even been redeemed
    # Without the guard: logins are found by their state alone, in whatever browser.
    kept: dict[str, Transaction] = {}
    keep = Transactions.keep

    def keep_everywhere(self: Transactions, transaction: Transaction, *rest: Any) -> None:
        kept[transaction.id] = transaction
        keep(self, transaction, *rest)

    monkeypatch.setattr(Transactions, "keep", keep_everywhere)
    monkeypatch.setattr(Transactions, "find", lambda self, request, state: kept[state])
    assert await attack() == "ada"


async def test_cookies_have_host_prefix(world):
    """Browsers take no cookie of such a name from a sibling host (RFC 6265bis, section 4.1.3.2)."""
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        page = await browser.get("/authorize", params=login.query)
        for response in (page, await consented(browser, login)):
            cookies = response.headers.get_list("set-cookie")
            assert cookies
            for cookie in cookies:
                attributes = {each.strip().lower() for each in cookie.split(";")[1:]}
                assert cookie.startswith("__Host-")
                assert {"secure", "httponly", "path=/"} <= attributes
                assert not any(each.startswith("domain") for each in attributes)
                assert {"samesite=lax", "samesite=strict"} & attributes


async def test_callback_replayed_is_rejected(world):
    """An attacker gets at the victim's cookies and provider URL later, and opens it again."""
    login = await world.client(EVIL)
    async with world.browser("ada") as victim:
        start = await consented(victim, login)
        cookies = {each.name: each.value for each in victim.cookies.jar if "mcp" in each.domain}
        assert await world.holds(login, await victim.follow(start, until=EVIL)) == "ada"
        for name, value in cookies.items():
            victim.cookies.set(name, value or "", domain="mcp.example.com")
        again = await victim.follow(await victim.get(start.headers["location"]), until=EVIL)
        assert await world.holds(login, again) is None


async def test_callback_with_swapped_login_cookie_is_rejected(world):
    """The attacker's login under the name of the victim's, who has allowed the editor."""

    async def attack() -> str | None:
        good, bad = await world.client(EDITOR), await world.client(EVIL)
        async with world.browser("mallory") as attacker, world.browser("ada") as victim:
            await consented(attacker, bad)
            start = await consented(victim, good)
            login_cookie(victim).value = login_cookie(attacker).value
            return await world.holds(bad, await victim.follow(start, until=EVIL))

    assert await attack() is None
    world.provider.has_pkce = False  # else the verifier, which is the attacker's, does not fit
    assert await attack() is None


@each_row(
    "query",
    [
        {},
        {"state": "x"},
        {"code": "x"},
        {"code": "x", "state": "x"},
        {"code": "x", "state": "x" * 30_000},
        {"error": "access_denied", "state": "x"},
        {"error": "<script>alert(1)</script>", "error_description": "<script>", "state": "<script>"},
        {"code": "x", "state": "../../x\r\nSet-Cookie: a=b"},
        {"code": "x", "state": "\u202e"},
    ],
)
async def test_callback_without_login_is_page_without_redirect(world, query):
    async with world.browser("ada") as victim:
        page = await victim.get("/callback", params=query)
    assert 400 <= page.status_code < 500
    assert "location" not in page.headers
    assert "set-cookie" not in page.headers
    assert "<script" not in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert not world.provider.asked


async def test_link_without_consent_gives_nothing(world):
    """The attacker's client, and a link: the victim is known at the provider, which asks nothing."""
    login = await world.client(EVIL)
    async with world.browser("ada") as victim:
        headers = {"Sec-Fetch-Site": "cross-site"}
        shown = await victim.get("/authorize", params=login.query, headers=headers)
        assert await world.holds(login, await victim.follow(shown, until=EVIL)) is None
    assert not world.provider.asked


@each_row(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example.com", "Sec-Fetch-Site": "same-site"},
        {"Origin": "https://mcp.example.com.evil.example"},
        {"Origin": "https://mcp.example.com:8443"},
        {},
    ],
)
async def test_consent_form_from_another_site_is_rejected(headers):
    """CSRF: the attacker fetches the page for themselves, and has the victim's browser send its form.

    Web pages of all origins may use this server, so that only the form's own guards are left.
    """
    world = World(allowed_origins=["*"])
    login = await world.client(EVIL)
    async with world.browser("mallory") as attacker, world.browser("ada") as victim:
        form = form_of(await attacker.get("/authorize", params=login.query))
        # The victim's browser knows a page of its own, too.
        await victim.get("/authorize", params=(await world.client(EDITOR)).query)
        sent = await victim.post("/authorize", data=form, headers=headers)
        assert await world.holds(login, await victim.follow(sent, until=EVIL)) is None
    assert not world.provider.asked


@pytest.mark.parametrize("place", ["query", "form"])
async def test_consent_is_bound_to_shown_client(world, place):
    """The form of a good client, and the parameters of another one beside it."""
    good, bad = await world.client(EDITOR), await world.client(EVIL)
    async with world.browser("ada") as victim:
        form = form_of(await victim.get("/authorize", params=good.query))
        url = f"/authorize?{urlencode(bad.query)}" if place == "query" else "/authorize"
        body = form if place == "query" else {**form, **bad.query}
        sent = await victim.post(url, data=body, headers={"Origin": ORIGIN})
        assert await world.holds(bad, await victim.follow(sent, until="https://e")) is None


@each_row("position", [0, 20, -1])
async def test_consent_form_changed_is_rejected(world, position):
    login = await world.client(EVIL)
    async with world.browser("ada") as victim:
        form = form_of(await victim.get("/authorize", params=login.query))
        letters = list(form["request"])
        letters[position] = "A" if letters[position] != "A" else "B"
        form["request"] = "".join(letters)
        sent = await victim.post("/authorize", data=form, headers={"Origin": ORIGIN})
    assert sent.status_code == 400
    assert "location" not in sent.headers


async def test_pages_have_security_headers(world):
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        pages = [
            await browser.get("/authorize", params=login.query),
            await browser.get("/authorize"),
            await browser.get("/authorize", params={**login.query, "redirect_uri": EVIL}),
            await browser.get("/callback"),
            await browser.post("/authorize", data={"request": "x"}),
        ]
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "<script" not in page.text


@each_row(
    ("host", "encoded"),
    [
        ("\u0430pple.com", "xn--pple-43d.com"),
        ("g\u043e\u043egle.com", "xn--ggle-55da.com"),
        ("evil\u3002example", None),
        ("example\u2024com", None),
        ("\uff41pple.com", None),
    ],
)
async def test_register_homoglyph_host_is_rejected(world, host, encoded):
    """Homoglyphs: hosts are in ASCII, so that such a name is shown as `xn--...`."""
    async with world.browser() as machine:
        metadata = {"redirect_uris": [f"https://{host}/callback"], "token_endpoint_auth_method": "none"}
        assert (await machine.post("/register", json=metadata)).status_code == 400
        if encoded is not None:
            login = await world.client(f"https://{encoded}/callback")
            page = await machine.get("/authorize", params=login.query)
            assert encoded in page.text
            assert host not in page.text
