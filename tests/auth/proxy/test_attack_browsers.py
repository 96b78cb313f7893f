"""Attacks with two browsers, forged forms and consent for another client (confused deputy)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from mcpkit.auth.proxy.transactions import Transaction, Transactions
from tests.auth.proxy.world import EDITOR, EVIL, ORIGIN, Browser, World, consented, form_of
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def unbound(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what has logins found by their state alone, whichever browser comes back with it."""
    kept: dict[str, Transaction] = {}
    keep = Transactions.keep

    def keeping(self: Transactions, transaction: Transaction, *rest: Any) -> None:
        kept[transaction.id] = transaction
        keep(self, transaction, *rest)

    def off() -> None:
        monkeypatch.setattr(Transactions, "keep", keeping)
        monkeypatch.setattr(Transactions, "find", lambda self, request, state: kept[state])

    return off


async def consent_here_callback_there(world: World) -> str | None:
    """The attacker allows it, and has the victim open the provider's URL that comes of that (CVE-2026-27124)."""
    login = await world.client(EVIL)
    async with world.browser("mallory") as attacker, world.browser("ada") as victim:
        captured = (await consented(attacker, login)).headers["location"]
        assert captured.startswith("https://id.example.net/authorize?")
        return await world.holds(login, await victim.follow(await victim.get(captured), until=EVIL))


async def test_consent_of_another_browser_gives_no_login(world, unbound):
    assert await consent_here_callback_there(world) is None
    assert world.provider.to("/token") == []  # the victim's code has not even been redeemed
    unbound()
    assert await consent_here_callback_there(world) == "ada"


def tossed(browser: Browser, name: str, value: str) -> None:
    """Set a cookie as a sibling of the server's host may: for all of `example.com`.

    Browsers keep none of that name for a domain (RFC 6265bis, section 4.1.3.2).
    """
    if not name.startswith("__Host-"):
        browser.cookies.set(name, value, domain=".example.com", path="/")


async def test_cookie_of_sibling_host_is_ignored(world):
    """Cookie tossing: `evil.example.com` sets the attacker's cookies in the victim's browser."""

    async def attack(world: World) -> str | None:
        login = await world.client(EVIL)
        async with world.browser("mallory") as attacker, world.browser("ada") as victim:
            captured = (await consented(attacker, login)).headers["location"]
            for cookie in attacker.cookies.jar:
                if cookie.domain == "mcp.example.com":
                    tossed(victim, cookie.name, cookie.value or "")
            return await world.holds(login, await victim.follow(await victim.get(captured), until=EVIL))

    assert await attack(world) is None


async def test_cookies_have_host_prefix(world):
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        page = await browser.get("/authorize", params=login.query)
        allowed = await consented(browser, login)
        for response in (page, allowed):
            cookies = response.headers.get_list("set-cookie")
            assert cookies
            for cookie in cookies:
                attributes = {each.strip().lower() for each in cookie.split(";")[1:]}
                assert cookie.startswith("__Host-")
                assert {"secure", "httponly", "path=/"} <= attributes
                assert not any(each.startswith("domain") for each in attributes)
                assert {"samesite=lax", "samesite=strict"} & attributes


async def test_callback_replayed_is_rejected(world):
    """Somebody gets at the victim's cookies and provider URL later, and opens it again: the provider asks nobody."""

    async def attack() -> str | None:
        login = await world.client(EVIL)
        async with world.browser("ada") as victim:
            start = await consented(victim, login)
            cookies = {each.name: each.value or "" for each in victim.cookies.jar if "mcp" in each.domain}
            first = await victim.follow(start, until=EVIL)
            assert await world.holds(login, first) == "ada"
            for name, value in cookies.items():
                victim.cookies.set(name, value, domain="mcp.example.com")
            again = await victim.follow(await victim.get(start.headers["location"]), until=EVIL)
            return await world.holds(login, again)

    assert await attack() is None


async def test_callback_with_swapped_login_cookie_is_rejected(world):
    """The attacker's login under the name of the victim's: the user has allowed the editor, and would log in elsewhere.

    How it gets there is another thing (see the sibling host); here it is there.
    """

    async def attack() -> str | None:
        good, bad = await world.client(EDITOR), await world.client(EVIL)
        async with world.browser("mallory") as attacker, world.browser("ada") as victim:
            await consented(attacker, bad)
            [theirs] = [each for each in attacker.cookies.jar if "-login-" in each.name]
            start = await consented(victim, good)
            [mine] = [each for each in victim.cookies.jar if "-login-" in each.name]
            mine.value = theirs.value
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
async def test_callback_without_login_is_page_without_redirect(query):
    world = World()
    async with world.browser("ada") as victim:
        page = await victim.get("/callback", params=query)
    assert 400 <= page.status_code < 500
    assert "location" not in page.headers
    assert "set-cookie" not in page.headers
    assert "<script" not in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert world.provider.asked == []


async def test_link_without_consent_gives_nothing(world):
    """The attacker's client, and a link: the victim is known at the provider, which asks nothing."""

    async def attack() -> str | None:
        login = await world.client(EVIL)
        async with world.browser("ada") as victim:
            shown = await victim.get(
                "/authorize", params=login.query, headers={"Sec-Fetch-Site": "cross-site"}
            )
            return await world.holds(login, await victim.follow(shown, until=EVIL))

    assert await attack() is None
    assert world.provider.asked == []


ELSEWHERE: list[dict[str, str]] = [
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example.com", "Sec-Fetch-Site": "same-site"},
    {"Origin": "https://mcp.example.com.evil.example"},
    {"Origin": "https://mcp.example.com:8443"},
    {},
]


@pytest.mark.parametrize("headers", ELSEWHERE)
async def test_consent_form_from_another_site_is_rejected(headers):
    """CSRF: the attacker fetches the page for themselves, and has the victim's browser send its form.

    That is so even where an operator lets web pages of all origins use the server, which refuses others right away.
    """
    world = World(allowed_origins=["*"])

    async def attack() -> str | None:
        login = await world.client(EVIL)
        async with world.browser("mallory") as attacker, world.browser("ada") as victim:
            form = form_of(await attacker.get("/authorize", params=login.query))
            # The victim's browser knows a page of its own, too.
            await victim.get("/authorize", params=(await world.client(EDITOR)).query)
            sent = await victim.post("/authorize", data=form, headers=headers)
            return await world.holds(login, await victim.follow(sent, until=EVIL))

    assert await attack() is None
    assert world.provider.asked == []


@pytest.mark.parametrize("where", ["query", "form"])
async def test_consent_is_bound_to_shown_client(world, where):
    """The form of a good client, and the parameters of another one beside it."""

    async def attack() -> str | None:
        good, bad = await world.client(EDITOR), await world.client(EVIL)
        more = {name: str(value) for name, value in bad.query.items()}
        async with world.browser("ada") as victim:
            form = form_of(await victim.get("/authorize", params=good.query))
            url = f"/authorize?{urlencode(more)}" if where == "query" else "/authorize"
            body = form if where == "query" else {**form, **more}
            sent = await victim.post(url, data=body, headers={"Origin": ORIGIN})
            return await world.holds(bad, await victim.follow(sent, until="https://e"))

    assert await attack() is None


@each_row("position", [0, 20, -1])
async def test_consent_form_changed_is_rejected(position):
    world = World()
    login = await world.client(EVIL)
    async with world.browser("ada") as victim:
        form = form_of(await victim.get("/authorize", params=login.query))
        text = form["request"]
        other = "A" if text[position] != "A" else "B"
        at = position % len(text)
        form["request"] = text[:at] + other + text[at + 1 :]
        sent = await victim.post("/authorize", data=form, headers={"Origin": ORIGIN})
    assert sent.status_code == 400
    assert "location" not in sent.headers


async def test_pages_have_security_headers(world):
    """What Chromium makes of it is in tests/interop/authorization."""
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
    "host",
    ["\u0430pple.com", "g\u043e\u043egle.com", "evil\u3002example", "example\u2024com", "\uff41pple.com"],
)
async def test_register_homoglyph_host_is_rejected(host):
    """Homoglyphs: only what stands in ASCII is a host, so that such a name is shown as `xn--...`."""
    world = World()
    async with world.browser() as machine:
        metadata = {"redirect_uris": [f"https://{host}/callback"], "token_endpoint_auth_method": "none"}
        assert (await machine.post("/register", json=metadata)).status_code == 400
        encoded = host.encode("idna").decode() if "xn--" in host.encode("idna").decode() else None
        if encoded is not None:
            shown = f"https://{encoded}/callback"
            login = await world.client(shown)
            page = await machine.get("/authorize", params=login.query)
            assert encoded in page.text
            assert host not in page.text
