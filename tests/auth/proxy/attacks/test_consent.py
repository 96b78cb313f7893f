"""Nothing is forwarded that the user of this browser has not allowed, for this client: the confused deputy."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.responses import Response

from mcpkit.auth.authority.asked import Asked
from mcpkit.auth.authority.consent import Consent
from mcpkit.auth.authority.login import Ending
from mcpkit.auth.authority.parameters import Parameters, of_form
from mcpkit.auth.proxy.login import ProxyLogin
from tests.helpers.two_browsers import EDITOR, EVIL, ORIGIN, World, form_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> World:
    return World()


async def answered_by_anybody(self: Consent, request: Request) -> tuple[Asked, Parameters]:
    """Take a form from whoever sends it, as without the guard."""
    from mcpkit.auth.authority.asked import opened

    form = await of_form(request)
    return opened(form.require("request"), self._keys, self._clock), form


async def test_a_link_alone_gives_nobody_anything(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def at_once(self: ProxyLogin, ending: Ending, asked: Asked, request: Request) -> Response:
        return await self._forward(ending, asked, request)

    monkeypatch.setattr(ProxyLogin, "ask", at_once)
    assert await attack() == "ada"


async def test_the_page_says_to_whom(world: World) -> None:
    login = await world.client(EVIL)
    async with world.browser("ada") as victim:
        page = await victim.get("/authorize", params=login.query)
    for said in ("A client", "evil.example", "notes", "Read notes"):
        assert said in page.text


ELSEWHERE: list[dict[str, str]] = [
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example.com", "Sec-Fetch-Site": "same-site"},
    {"Origin": "https://mcp.example.com.evil.example"},
    {"Origin": "https://mcp.example.com:8443"},
    {},
]


@pytest.mark.parametrize("headers", ELSEWHERE)
async def test_a_form_of_another_site_allows_nothing(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(Consent, "answered", answered_by_anybody)
    assert await attack() == "ada"


@pytest.mark.parametrize("headers", ELSEWHERE[:-1])
async def test_a_form_of_another_site_is_refused_even_where_the_browser_sends_its_cookies(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser without SameSite, and an attacker who knows the form that the victim was shown."""
    world = World(allowed_origins=["*"])

    async def attack() -> str | None:
        login = await world.client(EVIL)
        async with world.browser("ada") as victim:
            form = form_of(await victim.get("/authorize", params=login.query))
            sent = await victim.post("/authorize", data=form, headers=headers)
            return await world.holds(login, await victim.follow(sent, until=EVIL))

    assert await attack() is None
    monkeypatch.setattr(Consent, "answered", answered_by_anybody)
    assert await attack() == "ada"


@pytest.mark.parametrize("where", ["query", "form"])
async def test_consent_is_for_the_client_that_was_shown(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    real = Consent.answered

    async def by_what_is_sent(self: Consent, request: Request) -> tuple[Asked, Parameters]:
        asked, form = await real(self, request)
        said = {
            name: form.get(sent) or request.query_params[sent]
            for name, sent in (
                ("client_id", "client_id"),
                ("redirect_uri", "redirect_uri"),
                ("challenge", "code_challenge"),
            )
        }
        return replace(asked, **said), form

    monkeypatch.setattr(Consent, "answered", by_what_is_sent)
    assert await attack() == "ada"


@pytest.mark.parametrize("position", [0, 20, -1])
async def test_a_form_that_was_changed_is_none(world: World, position: int) -> None:
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


async def test_no_answer_is_a_no(world: World) -> None:
    login = await world.client(EVIL)
    async with world.browser("ada") as victim:
        form = form_of(await victim.get("/authorize", params=login.query))
        for value in ("", "ALLOW", "yes", "allow\x00"):
            sent = await victim.post("/authorize", data={**form, "answer": value}, headers={"Origin": ORIGIN})
            assert not sent.headers.get("location", "").startswith("https://id.example.net"), value
        denied = await victim.post("/authorize", data={**form, "answer": "deny"}, headers={"Origin": ORIGIN})
    assert "error=access_denied" in denied.headers["location"]
    assert world.provider.asked == []


async def test_no_page_is_shown_in_a_frame_and_none_is_kept(world: World) -> None:
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


NAMES = [
    ("<script>alert(1)</script>", "<script"),
    ("<img src=x onerror=alert(1)>", "<img"),
    ("' onmouseover='x", "onmouseover='"),
    ("Claude\u202e.elpmaxe.live", "\u202e"),
    ("Claude\u2066x\u2069", "\u2066"),
    ("Cla\u200bude", "\u200b"),
    ("Cla\u00adude", "\u00ad"),
    ("Claude\u2028verified", "\u2028"),
    ("Claude\r\nX: y", "\r\nX"),
    ("Claude\x00\x1b[31m", "\x1b"),
    ("\ufeffClaude", "\ufeff"),
    ("\U000e0041Claude", "\U000e0041"),
]


@pytest.mark.parametrize(("name", "dangerous"), NAMES)
async def test_a_name_is_text_that_turns_nothing_about(world: World, name: str, dangerous: str) -> None:
    async with world.browser("ada") as browser:
        metadata = {"client_name": name, "redirect_uris": [EVIL], "token_endpoint_auth_method": "none"}
        registered = (await browser.post("/register", json=metadata)).json()
        login = await world.client(EVIL)
        page = await browser.get("/authorize", params={**login.query, "client_id": registered["client_id"]})
    assert page.status_code == 200
    assert dangerous not in page.text
    assert "evil.example" in page.text


@pytest.mark.parametrize(
    "host",
    ["\u0430pple.com", "g\u043e\u043egle.com", "evil\u3002example", "example\u2024com", "\uff41pple.com"],
)
async def test_a_host_that_looks_like_another_is_none(world: World, host: str) -> None:
    """Homoglyphs: only what stands in ASCII is a host, so that such a name is shown as `xn--...`."""
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
