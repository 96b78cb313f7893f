"""Consent that a browser remembers is ridden on by nobody: GHSA-6x8h-498w-gv8c, and what is like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mcpkit.auth.authority.client import Client
from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.proxy import remembered as remembered_module
from mcpkit.auth.proxy.remembered import FIELD, Remembered
from tests.helpers.authority_site import Login
from tests.helpers.two_browsers import EDITOR, MCP, ORIGIN, Browser, World, answer, form_of

pytestmark = pytest.mark.anyio

DOCUMENT = "https://editor.example.org/client.json"
LOCAL = "http://127.0.0.1:3000/callback"
OPENED = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
"""What a browser says of what a program has it open, and also after a redirect from there."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with an editor whose id is the URL of a document, which is the same for all who use it."""

    async def found(self: ClientDocuments, client_id: str, caller: str | None = None) -> Client:
        assert client_id == DOCUMENT
        return Client(DOCUMENT, "Editor", (EDITOR, LOCAL))

    monkeypatch.setattr(ClientDocuments, "find", found)
    return World()


async def allowed(browser: Browser, login: Login) -> httpx2.Response:
    """Open a request as a program does, allow it, and have it remembered if that can be; return the end."""
    page = await browser.get("/authorize", params=login.query, headers=OPENED)
    form = {**form_of(page), FIELD: "yes"}
    sent = await browser.post("/authorize", data=form, headers={"Origin": ORIGIN})
    return await browser.follow(sent, until=login.redirect_uri)


class Between:
    """The attacker's server: to the victim's editor it is an authorization server, and sends browsers on to ours."""

    issuer = "https://evil.example"

    def __init__(self, world: World) -> None:
        self.got: list[dict[str, str]] = []
        world.hosts["evil.example"] = Starlette(
            routes=[
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    async def _authorize(self, request: Request) -> Response:
        return RedirectResponse(
            f"{ORIGIN}/authorize?{urlencode({**request.query_params, 'resource': MCP})}", 302
        )

    async def _token(self, request: Request) -> Response:
        self.got.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


async def ridden(world: World, client_id: str, redirect_uri: str) -> str | None:
    """The victim has allowed their editor our server, and connects it to the attacker's. Nobody clicks on anything.

    Their editor does not look at `iss`, which would save it.
    """
    between = Between(world)
    async with world.browser("ada") as victim:
        own = Login(client_id, redirect_uri, resource=MCP)
        assert await world.holds(own, await allowed(victim, own)) == "ada"
        login = Login(client_id, redirect_uri, resource="https://evil.example/mcp")
        opened = await victim.get(f"{between.issuer}/authorize", params=login.query, headers=OPENED)
        led = await victim.get(opened.headers["location"], headers=OPENED)  # as Chromium does
        code = answer(await victim.follow(led, until=redirect_uri)).get("code")
        if code is None:
            return None
        await victim.post(f"{between.issuer}/token", data=login.form(code))
    found = await world.tokens(between.got[-1])
    return None if found is None else await world.whose(found["access_token"])


@pytest.mark.parametrize("redirect_uri", [EDITOR, LOCAL])
async def test_nobody_rides_on_consent_for_a_document_that_everybody_shares(
    world: World, redirect_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ridden(world, DOCUMENT, redirect_uri) is None
    assert len(world.provider.to("/authorize")) == 1  # the victim's own
    monkeypatch.setattr(Remembered, "may_be", lambda self, asked: True)
    assert await ridden(world, DOCUMENT, redirect_uri) == "ada"


async def test_the_control_what_a_program_asks_again_is_not_asked_again(world: World) -> None:
    """Else the other tests would say nothing."""
    login = await world.client(LOCAL)
    async with world.browser("ada") as browser:
        assert await world.holds(login, await allowed(browser, login)) == "ada"
        again = Login(login.client_id, "http://127.0.0.1:4000/callback", resource=MCP)
        sent = await browser.get("/authorize", params=again.query, headers=OPENED)
        ended = await browser.follow(sent, until=again.redirect_uri)
        assert await world.holds(again, ended) == "ada"


def always_opened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(remembered_module, "_is_opened", lambda headers: True)


def any_what(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(remembered_module, "_what", lambda asked: "the same")


def always_may_be(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Remembered, "may_be", lambda self, asked: True)


CASES: dict[str, tuple[str, dict[str, Any], dict[str, str], Callable[[pytest.MonkeyPatch], None] | None]] = {
    "a link of another site": (LOCAL, {}, {**OPENED, "Sec-Fetch-Site": "cross-site"}, always_opened),
    "a link of a sibling": (LOCAL, {}, {**OPENED, "Sec-Fetch-Site": "same-site"}, always_opened),
    "a page of our own": (LOCAL, {}, {**OPENED, "Sec-Fetch-Site": "same-origin"}, always_opened),
    "a browser that does not say": (LOCAL, {}, {}, always_opened),
    "a frame": (LOCAL, {}, {**OPENED, "Sec-Fetch-Dest": "iframe"}, always_opened),
    "a script": (LOCAL, {}, {**OPENED, "Sec-Fetch-Mode": "no-cors"}, always_opened),
    "what is fetched beforehand": (LOCAL, {}, {**OPENED, "Sec-Purpose": "prefetch;prerender"}, always_opened),
    "a site": (EDITOR, {}, OPENED, always_may_be),
    "another path": (LOCAL, {"redirect_uri": "http://127.0.0.1:3000/other"}, OPENED, any_what),
    "another host": (LOCAL, {"redirect_uri": "http://localhost:3000/callback"}, OPENED, any_what),
    "more scopes": (LOCAL, {"scope": "notes:read notes:write"}, OPENED, None),
    "no resource": (LOCAL, {"resource": None}, OPENED, None),
    "another resource": (LOCAL, {"resource": f"{ORIGIN}/sse"}, OPENED, any_what),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_is_not_the_same_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    redirect_uri, more, headers, off = CASES[name]
    world = World()

    async def attack() -> bool:
        metadata = {
            "redirect_uris": [redirect_uri, "http://127.0.0.1/other", "http://localhost/callback"],
            "token_endpoint_auth_method": "none",
        }
        async with world.browser("ada") as browser:
            registered = (await browser.post("/register", json=metadata)).json()
            login = Login(registered["client_id"], redirect_uri, resource=MCP)
            assert await world.holds(login, await allowed(browser, login)) == "ada"
            asked = Login(
                registered["client_id"],
                more.get("redirect_uri", redirect_uri),
                **{"resource": MCP, **{key: more[key] for key in more if key != "redirect_uri"}},
            )
            sent = await browser.get("/authorize", params=asked.query, headers=headers)
            return sent.status_code == 303

    assert not await attack()
    if off is not None:
        off(monkeypatch)
        assert await attack()


async def test_one_registration_is_not_another_of_the_same_name(world: World) -> None:
    one, other = await world.client(LOCAL), await world.client(LOCAL)
    async with world.browser("ada") as browser:
        await allowed(browser, one)
        shown = await browser.get("/authorize", params=other.query, headers=OPENED)
        assert form_of(shown)


async def test_the_next_user_of_a_browser_is_not_let_in_by_what_another_has_allowed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def attack() -> str | None:
        login = await world.client(LOCAL)
        async with world.browser("mallory") as browser:
            assert await world.holds(login, await allowed(browser, login)) == "mallory"
            session = browser.cookies.get("__Host-session", domain="id.example.net")
            world.provider.users[session or ""] = "ada"  # who logs in there meanwhile
            sent = await browser.get("/authorize", params=login.query, headers=OPENED)
            return await world.holds(login, await browser.follow(sent, until=LOCAL))

    assert await attack() is None

    async def anybody(self: Remembered, whose: str, subject: str) -> bool:
        return True

    monkeypatch.setattr(Remembered, "holds", anybody)
    assert await attack() == "ada"


async def anybody(self: Remembered, whose: str, subject: str) -> bool:
    """Let everybody in by what anybody has allowed, whenever that was."""
    return True


async def test_a_no_is_a_no_from_then_on(world: World) -> None:
    login = await world.client(LOCAL)
    async with world.browser("ada") as browser:
        await allowed(browser, login)
        page = await browser.get("/authorize", params=login.query)
        await browser.post("/authorize", data=form_of(page, "deny"), headers={"Origin": ORIGIN})
        assert form_of(await browser.get("/authorize", params=login.query, headers=OPENED))


async def test_what_one_browser_remembers_is_nothing_in_another(world: World) -> None:
    """The attacker's own cookie, under the same name: it says who has allowed it, and that is not the victim."""
    login = await world.client(LOCAL)
    async with world.browser("mallory") as attacker, world.browser("ada") as victim:
        await allowed(attacker, login)
        for cookie in attacker.cookies.jar:
            if "remembered" in cookie.name:
                victim.cookies.set(cookie.name, cookie.value or "", domain="mcp.example.com")
        sent = await victim.get("/authorize", params=login.query, headers=OPENED)
        assert await world.holds(login, await victim.follow(sent, until=LOCAL)) is None


async def test_who_was_sent_away_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a client that somebody has thrown out would be let in by the next redirect."""

    async def attack() -> str | None:
        login = await world.client(LOCAL)
        async with world.browser("ada") as browser:
            tokens = await world.tokens(login.form(answer(await allowed(browser, login))["code"]))
            assert tokens is not None
            await world.server.revoke((await world.auth.verify(tokens["access_token"], MCP)).principal)
            sent = await browser.get("/authorize", params=login.query, headers=OPENED)
            found = await world.holds(login, await browser.follow(sent, until=LOCAL))
            assert found or form_of(await browser.get("/authorize", params=login.query, headers=OPENED))
            return found

    assert await attack() is None
    monkeypatch.setattr(Remembered, "holds", anybody)
    assert await attack() == "ada"


async def test_nothing_is_remembered_that_nobody_asked_for(world: World) -> None:
    login = await world.client(LOCAL)
    async with world.browser("ada") as browser:
        page = await browser.get("/authorize", params=login.query, headers=OPENED)
        sent = await browser.post("/authorize", data=form_of(page), headers={"Origin": ORIGIN})
        await browser.follow(sent, until=LOCAL)
        assert not [each for each in browser.cookies.jar if "remembered" in each.name]
        assert form_of(await browser.get("/authorize", params=login.query, headers=OPENED))
