"""What one browser began is worth nothing in another: consent, callback, state, cookies.

The attacker wants to read the victim's notes: each attack says whose the attacker can read in the end, with the guard
and without it.
"""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.auth.authority.grants import Grants
from mcpkit.auth.proxy.transactions import Transaction, Transactions
from tests.helpers.two_browsers import EDITOR, EVIL, Browser, World, answer, consented, logged_in

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


async def test_consent_in_one_browser_is_none_in_another(world: World, unbound: Any) -> None:
    assert await consent_here_callback_there(world) is None
    assert world.provider.to("/token") == []  # the victim's code has not even been redeemed
    unbound()
    assert await consent_here_callback_there(world) == "ada"


async def test_a_browser_that_has_begun_a_login_of_its_own_is_another_one_too(
    world: World, unbound: Any
) -> None:
    """A cookie is there, but of another login."""

    async def attack() -> str | None:
        login, own = await world.client(EVIL), await world.client(EDITOR)
        async with world.browser("mallory") as attacker, world.browser("ada") as victim:
            await consented(victim, own)
            captured = (await consented(attacker, login)).headers["location"]
            return await world.holds(login, await victim.follow(await victim.get(captured), until=EVIL))

    assert await attack() is None
    unbound()
    assert await attack() == "ada"


def tossed(browser: Browser, name: str, value: str) -> None:
    """Set a cookie as a sibling of the server's host may: for all of `example.com`.

    Browsers keep none of that name for a domain (RFC 6265bis, section 4.1.3.2).
    """
    if not name.startswith("__Host-"):
        browser.cookies.set(name, value, domain=".example.com", path="/")


async def test_a_sibling_host_gives_no_browser_a_login(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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
    init = Transactions.__init__

    def unprefixed(self: Transactions, issuer: str, *rest: Any) -> None:
        init(self, issuer.replace("https:", "http:"), *rest)

    monkeypatch.setattr(Transactions, "__init__", unprefixed)
    assert await attack(World()) == "ada"


async def test_every_cookie_is_of_this_host_alone(world: World) -> None:
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


async def test_a_callback_is_answered_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def anyway(self: Grants, asked: str, lifetime: float) -> bool:
        return True

    monkeypatch.setattr(Grants, "claim", anyway)
    assert await attack() == "ada"


async def test_a_callback_that_others_have_seen_is_worth_nothing_to_them(world: World, unbound: Any) -> None:
    """The URL of the victim's callback leaks, before it is answered: the attacker opens it in their own browser."""

    async def attack() -> str | None:
        login = await world.client(EDITOR)
        async with world.browser("mallory") as attacker, world.browser("ada") as victim:
            start = await consented(victim, login)
            came = await victim.follow(start, until="https://mcp.example.com/callback")
            stolen = await attacker.get(came.headers["location"])
            # The attacker reads there what the editor would be given. That PKCE guards it, too, is another test.
            code = answer(stolen).get("code")
            found = None if code is None else await world.tokens(login.form(code))
            return None if found is None else await world.whose(found["access_token"])

    assert await attack() is None
    unbound()
    assert await attack() == "ada"


async def test_a_login_is_that_of_its_own_state_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(Transactions, "_place", lambda self, id_: b"anywhere")
    assert await attack() == "ada"


@pytest.mark.parametrize(
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
async def test_a_callback_that_nobody_has_begun_is_a_page(world: World, query: dict[str, str]) -> None:
    async with world.browser("ada") as victim:
        page = await victim.get("/callback", params=query)
    assert 400 <= page.status_code < 500
    assert "location" not in page.headers
    assert "set-cookie" not in page.headers
    assert "<script" not in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert world.provider.asked == []


async def test_the_control_a_user_who_does_all_this_in_one_browser_logs_in(world: World) -> None:
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        assert await world.holds(login, await logged_in(world, browser, login)) == "ada"
