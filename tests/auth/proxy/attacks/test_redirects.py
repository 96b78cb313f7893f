"""Where a browser is sent: to nobody whom the user has not allowed, and by nothing that runs or forges a header."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from mcpkit.auth.authority import client as client_module
from tests.helpers.authority_site import Forms, Login
from tests.helpers.two_browsers import (
    EDITOR,
    EVIL,
    ORIGIN,
    PROVIDER,
    World,
    answer,
    consented,
    form_of,
    logged_in,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> World:
    return World()


DANGEROUS = [
    "javascript:alert(document.domain)",
    "JavaScript:alert(1)",
    "javascript://mcp.example.com/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "blob:https://mcp.example.com/x",
    "filesystem:https://mcp.example.com/x",
    "about:blank",
    "view-source:https://mcp.example.com/",
    "intent://x#Intent;scheme=http;end",
    "ms-appx-web://x/y",
    "jar:https://x!/y",
    "ws://127.0.0.1/x",
    "ftp://127.0.0.1/x",
    "http://evil.example/callback",
    "https://evil.example/callback#fragment",
    "https://user:password@evil.example/callback",
    "https://claude.ai\\@evil.example/callback",
    "https://claude.ai@evil.example/callback",
    "//evil.example/callback",
    "/callback",
    "https:evil.example",
    "https:///evil.example",
    "https://evil.example/call\r\nback",
    "https://evil.example/call\tback",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "https://evil.example/\u202e",
    "https://evil.example/" + "x" * 2000,
    "",
]


@pytest.mark.parametrize("uri", DANGEROUS)
async def test_no_client_registers_what_a_browser_would_run_or_read_in_two_ways(
    world: World, uri: str
) -> None:
    async with world.browser() as machine:
        metadata = {"redirect_uris": [EDITOR, uri], "token_endpoint_auth_method": "none"}
        refused = await machine.post("/register", json=metadata)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_redirect_uri")
        login = await world.client(EDITOR)
        shown = await machine.get("/authorize", params={**login.query, "redirect_uri": uri or "x"})
    assert shown.status_code == 400
    assert "location" not in shown.headers
    assert Forms(shown.text).links == []


@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://claude.com/api/mcp/auth_callback",
        "http://127.0.0.1:3000/callback",
        "http://localhost/callback",
        "http://[::1]:9/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "vscode://vscode.github-authentication/did-authenticate",
        "com.example.app:/callback",
    ],
)
async def test_the_control_good_ones_are_taken(world: World, uri: str) -> None:
    login = await world.client(uri)
    async with world.browser("ada") as browser:
        ended = await browser.follow(await consented(browser, login), until=uri)
        assert await world.holds(login, ended) == "ada"


async def test_a_code_goes_where_its_client_has_registered_and_nowhere_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The victim's own client in the link, and the attacker's redirect URI."""

    async def attack() -> str | None:
        good = await world.client(EDITOR)
        login = Login(good.client_id, EVIL, resource=None)
        async with world.browser("ada") as victim:
            page = await victim.get("/authorize", params=login.query)
            if page.status_code != 200:
                return None
            sent = await victim.post("/authorize", data=form_of(page), headers={"Origin": ORIGIN})
            return await world.holds(login, await victim.follow(sent, until=EVIL))

    assert await attack() is None
    monkeypatch.setattr(client_module, "is_registered", lambda uri, registered: True)
    assert await attack() == "ada"


@pytest.mark.parametrize(
    "change",
    [
        {"scope": "none-of-these"},
        {"response_type": "token"},
        {"response_mode": "fragment"},
        {"code_challenge_method": "plain"},
        {"resource": "https://other.example/mcp"},
        {"request": "x"},
        {"prompt": ["none", "login"]},
    ],
)
async def test_an_error_leads_nobody_elsewhere_without_a_word(
    world: World, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open redirect: a link to this server that ends at the attacker's, without a click."""

    async def attack() -> bool:
        login = await world.client(EVIL, **change)
        async with world.browser("ada") as victim:
            shown = await victim.get("/authorize", params=login.query)
        return shown.headers.get("location", "").startswith(EVIL)

    assert not await attack()
    monkeypatch.setattr("mcpkit.auth.authority.authority.is_local", lambda uri: True)
    assert await attack()


STATES = [
    "x\r\nSet-Cookie: stolen=1",
    "x\nLocation: https://evil.example",
    "x\x00y",
    "<script>alert(1)</script>",
    "'\"><img src=x>",
    "x&code=attackers&iss=https://evil.example",
    "x#code=attackers",
    "%0d%0aSet-Cookie:%20stolen=1",
    "\u2028\u202e\U0001f600",
    "é",
]


@pytest.mark.parametrize("state", STATES)
async def test_a_state_comes_back_as_it_was_and_nothing_else_with_it(world: World, state: str) -> None:
    for uri in (EDITOR, f"{EDITOR}?a=1"):
        login = await world.client(uri, state=state)
        async with world.browser("ada") as browser:
            sent = await consented(browser, login)
            ended = await browser.follow(sent, until=EDITOR)
            denied = await browser.post(
                "/authorize",
                data=form_of(await browser.get("/authorize", params=login.query), "allow")
                | {"answer": "deny"},
                headers={"Origin": ORIGIN},
            )
        for response in (ended, denied):
            location = response.headers["location"]
            assert location.isascii()
            assert location.isprintable()
            said = answer(response)
            assert said["state"] == state
            assert said["iss"] == ORIGIN
            assert location.count("code=") + location.count("error=") == 1
            assert "stolen" not in str(response.headers.get_list("set-cookie"))


PROVIDERS_ERRORS = [
    ("access_denied", "no"),
    ("server_error\r\nSet-Cookie: a=b", "x\r\nSet-Cookie: a=b"),
    ("<script>", "<script>alert(1)</script>"),
    ("x" * 5000, "y" * 20000),
    ("access_denied&code=attackers", "&code=attackers"),
    ("é\u202e", "\u202e\x00"),
    ("", ""),
]


@pytest.mark.parametrize(("error", "description"), PROVIDERS_ERRORS)
async def test_what_a_provider_says_of_an_error_forges_nothing(
    world: World, error: str, description: str
) -> None:
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        state = answer(await consented(browser, login))["state"]
        query = {"error": error, "error_description": description, "state": state}
        ended = await browser.get("/callback", params=query)
    said = answer(ended)
    location = ended.headers["location"]
    assert location.startswith(f"{EDITOR}?")
    assert location.isascii()
    assert location.isprintable()
    assert len(location) < 2000
    assert set(said) == {"error", "error_description", "iss", "state"}
    assert said["error"] in {"access_denied", "server_error", "temporarily_unavailable"}
    assert (said["iss"], said["state"]) == (ORIGIN, login.query["state"])
    assert "<" not in said["error_description"]
    for cookie in ended.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-mcpkit-login-")


async def test_the_provider_is_asked_where_it_is_and_says_nothing_of_the_client(world: World) -> None:
    """Nothing that a client sends gets into the provider's request: no redirect, no scope, no prompt."""
    more = {"prompt": "none", "login_hint": "ada", "audience": "x", "access_type": "offline", "nonce": "n"}
    login = await world.client(EVIL, **more)
    async with world.browser("ada") as browser:
        sent = await consented(browser, login)
    location = sent.headers["location"]
    assert location.startswith(f"{PROVIDER}/authorize?")
    asked = answer(sent)
    assert asked["redirect_uri"] == f"{ORIGIN}/callback"
    assert not set(more) & set(asked)
    for text in ("evil.example", login.client_id, login.query["state"], quote("notes:read")):
        assert text not in location


@pytest.mark.parametrize("size", [3_000, 30_000])
async def test_a_long_state_fills_no_cookie_jar(world: World, size: int) -> None:
    """A cookie bomb: after one click every request of this browser would be too long for a server to read."""
    import secrets

    login = await world.client(EVIL, state=secrets.token_hex(size // 2))
    async with world.browser("ada") as victim:
        page = await victim.get("/authorize", params=login.query)
        if page.status_code == 200:
            for _ in range(5):
                page = await victim.get("/authorize", params=login.query)
                await victim.post("/authorize", data=form_of(page), headers={"Origin": ORIGIN})
        kept = sum(
            len(each.name) + len(each.value or "") + 3
            for each in victim.cookies.jar
            if each.domain == "mcp.example.com"
        )
    assert kept < 8000


@pytest.mark.slow
async def test_many_pages_fill_no_cookie_jar(world: World) -> None:
    """Each page that is opened sets a cookie: a site that opens a hundred must not shut the browser out."""
    login = await world.client(EVIL)
    async with world.browser(
        "ada", address="127.0.0.1"
    ) as victim:  # whose address nobody can tell, for the limits
        for _ in range(200):
            await victim.get("/authorize", params=login.query)
        kept = sum(
            len(each.name) + len(each.value or "") + 3
            for each in victim.cookies.jar
            if each.domain == "mcp.example.com"
        )
        assert kept < 8000
        own = await world.client(EDITOR)
        assert await world.holds(own, await logged_in(world, victim, own)) == "ada"
