"""Attacks with stolen codes, tokens and identities, and on remembered consent (GHSA-6x8h-498w-gv8c)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mcpkit import Principal
from mcpkit.auth.authority.client import Client
from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.proxy.remembered import FIELD
from mcpkit.auth.proxy.transactions import Transactions
from mcpkit.auth.verifier import InvalidTokenError
from mcpkit.common.errors import LoginNeededError
from tests.auth.proxy.world import (
    EDITOR,
    EVIL,
    MCP,
    ORIGIN,
    PROVIDER,
    Browser,
    World,
    answer,
    consented,
    form_of,
    logged_in,
)
from tests.helpers.oauth_flow import Login

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["oauth", "openid"])
def world(request: pytest.FixtureRequest) -> World:
    return World(openid=request.param)


async def stolen_upstream_code(world: World) -> str | None:
    """The victim's code of the provider leaks before it is used, and the attacker brings it to their own callback."""
    login = await world.client(EVIL)
    async with world.browser("mallory") as attacker, world.browser("ada") as victim:
        came = await victim.follow(
            await consented(victim, await world.client(EDITOR)), until=f"{ORIGIN}/callback"
        )
        code = answer(came)["code"]
        state = answer(await consented(attacker, login))["state"]
        ended = await attacker.get("/callback", params={"code": code, "state": state})
        return await world.holds(login, ended)


async def injected_upstream_code(world: World) -> str | None:
    """The victim's browser comes back with the attacker's code of the provider, and the right state."""
    login = await world.client(EDITOR)
    async with world.browser("mallory") as attacker, world.browser("ada") as victim:
        came = await attacker.follow(
            await consented(attacker, await world.client(EVIL)), until=f"{ORIGIN}/callback"
        )
        state = answer(await consented(victim, login))["state"]
        ended = await victim.get("/callback", params={"code": answer(came)["code"], "state": state})
        return await world.holds(login, ended)


@pytest.mark.parametrize(
    ("attack", "got"), [(stolen_upstream_code, "ada"), (injected_upstream_code, "mallory")]
)
async def test_provider_code_of_another_login_is_rejected(world, attack, got):
    """PKCE on the provider's leg, and the nonce where there are ID tokens: either of them is enough."""
    assert await attack(world) is None
    world.provider.has_pkce = False
    if world.is_openid:
        assert await attack(world) is None
        begin = Transactions.begin

        def begun(self: Transactions, *of: Any, **more: Any) -> Any:
            return replace(begin(self, *of, **more), nonce="always the same")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Transactions, "begin", begun)
            assert await attack(world) == got
    else:
        assert await attack(world) == got


class Attacker:
    """A server whose authorization server sends browsers on to ours, and takes what comes back to its own client."""

    def __init__(self, world: World) -> None:
        self.issuer = "https://evil.example"
        self.got: list[dict[str, str]] = []
        world.hosts["evil.example"] = Starlette(
            routes=[Route("/authorize", self._authorize), Route("/token", self._token, methods=["POST"])]
        )

    async def _authorize(self, request: Request) -> Response:
        query = {**request.query_params, "resource": MCP}
        return RedirectResponse(f"{ORIGIN}/authorize?{urlencode(query)}", 302)

    async def _token(self, request: Request) -> Response:
        self.got.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


async def test_mix_up_is_detected_by_iss(world):
    """Mix-up: the victim connects their editor to the attacker's server, whose `/authorize` sends them on to us.

    They see our page for their own editor, and may well allow it. What then keeps the code from the attacker's token
    endpoint is that we say who we are (RFC 9207): guard on is a client that looks, guard off is one that does not.
    """
    attacker = Attacker(world)

    async def attack(*, looks: bool) -> str | None:
        login = await world.client(EDITOR)
        async with world.browser("ada") as victim:
            led = await victim.follow(
                await victim.get(f"{attacker.issuer}/authorize", params=login.query), until="https://none"
            )
            sent = await victim.post(f"{ORIGIN}/authorize", data=form_of(led), headers={"Origin": ORIGIN})
            came = answer(await victim.follow(sent, until=EDITOR))
            assert came["iss"] == ORIGIN
            if looks and came["iss"] != attacker.issuer:
                return None
            await victim.post(f"{attacker.issuer}/token", data=login.form(came["code"]))
        found = await world.tokens(attacker.got[-1])
        return None if found is None else await world.whose(found["access_token"])

    assert await attack(looks=True) is None
    assert attacker.got == []
    assert await attack(looks=False) == "ada"


async def test_token_of_another_server_is_rejected(world):
    """Two servers with one secret and one store: a token is for the one whose page was shown."""
    login = await world.client(EDITOR)
    async with world.browser("ada") as victim:
        tokens = await world.tokens(login.form(answer(await logged_in(world, victim, login))["code"]))
    assert tokens is not None
    assert await world.whose(tokens["access_token"]) == "ada"
    with pytest.raises(InvalidTokenError, match="another audience"):
        await world.auth.verify(tokens["access_token"], "https://mcp.example.com/other")
    other = World(shared=world.shared, origin="https://other.example.com")
    with pytest.raises(InvalidTokenError):
        await other.auth.verify(tokens["access_token"], "https://other.example.com/mcp")
    with pytest.raises(InvalidTokenError):
        await other.auth.verify(tokens["access_token"], MCP)


async def test_provider_token_is_rejected(world):
    """Token passthrough: who has a token of the provider's, by whatever client of its, has nothing here."""
    login = await world.client(EDITOR)
    async with world.browser("ada") as victim:
        await world.tokens(login.form(answer(await logged_in(world, victim, login))["code"]))
    assert world.provider.tokens
    for token in world.provider.tokens:
        assert await world.whose(token) is None
        assert (
            await world.tokens(
                {"grant_type": "refresh_token", "refresh_token": token, "client_id": login.client_id}
            )
            is None
        )
        async with world.browser() as machine:
            refused = await machine.post("/mcp", json={}, headers={"Authorization": f"Bearer {token}"})
            assert refused.status_code == 401
            assert token not in refused.text + str(refused.headers)


async def principal_of(world: World, user: str, **more: Any) -> Principal:
    """Log somebody in, and return who they are."""
    login = await world.client(EDITOR, **more)
    async with world.browser(user) as browser:
        tokens = await world.tokens(login.form(answer(await logged_in(world, browser, login))["code"]))
    assert tokens is not None
    return (await world.auth.verify(tokens["access_token"], MCP)).principal


PROTOCOL_CLAIMS = {
    "scope": "notes:read notes:write notes:admin",
    "scp": ["notes:write"],
    "client_id": "another",
    "azp": "another",
    "grant": "of somebody else",
    "iss": "https://evil.example",
    "aud": ["https://other.example"],
    "exp": 9_999_999_999,
    "nbf": 1,
    "iat": 1,
    "jti": "x",
    "act": {"sub": "root"},
}


async def test_provider_claims_do_not_override_protocol_claims():
    """Somebody may choose what a provider says of them: no such claim grants anything."""
    world = World()
    world.provider.userinfo = {**PROTOCOL_CLAIMS, "team": "red"}
    principal = await principal_of(world, "mallory")
    assert principal.scopes == {"notes:read"}
    assert (principal.subject, principal.issuer) == ("mallory", PROVIDER)
    assert principal.client_id is not None
    assert principal.client_id != "another"
    assert principal.claims["team"] == "red"
    for name in ("scope", "client_id", "grant", "iss", "aud", "exp", "jti"):
        assert principal.claims.get(name) != PROTOCOL_CLAIMS[name]


async def test_token_for_forged_grant_is_rejected():
    """An author's `ctx.upstream_token`: who asks has their own, whatever their claims say."""
    world = World()
    ada, mallory = await principal_of(world, "ada"), await principal_of(world, "mallory")

    async def attack() -> str | None:
        forged = Principal(
            mallory.id,
            mallory.scopes,
            claims={**mallory.claims, "grant": ada.claims["grant"]},
            issuer=mallory.issuer,
            subject=mallory.subject,
            client_id=mallory.client_id,
        )
        try:
            token = await world.auth.token_for(forged, "oauth", world.auth.context)
        except LoginNeededError:
            return None
        return world.provider.tokens[token]

    assert world.provider.tokens[await world.auth.token_for(ada, "oauth", world.auth.context)] == "ada"
    assert (
        world.provider.tokens[await world.auth.token_for(mallory, "oauth", world.auth.context)] == "mallory"
    )
    assert await attack() is None


async def test_grant_record_moved_is_rejected():
    """Who can write to the store puts the victim's record in the place of their own."""
    from mcpkit.state.memory import Memory

    shared = Memory()
    world = World(shared=shared)
    login = await world.client(EVIL)
    async with world.browser("mallory") as attacker:
        tokens = await world.tokens(login.form(answer(await logged_in(world, attacker, login))["code"]))
    assert tokens is not None
    assert await world.whose(tokens["access_token"]) == "mallory"
    own = (await world.auth.verify(tokens["access_token"], MCP)).principal.claims["grant"]
    theirs = (await principal_of(world, "ada")).claims["grant"]
    records = {key: stored async for key, stored in shared.items("")}
    [place] = [key for key in records if str(own) in key]
    [source] = [key for key in records if str(theirs) in key]
    await shared.put(place, records[source].value, version=records[place].version, ttl=600)
    from mcpkit.auth import VerifierUnavailableError

    with pytest.raises(VerifierUnavailableError):
        await world.auth.verify(tokens["access_token"], MCP)


DOCUMENT = "https://editor.example.org/client.json"


LOCAL = "http://127.0.0.1:3000/callback"


OPENED = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture
def document_world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A document_world with an editor whose id is the URL of a document, which is the same for all who use it."""

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

    def __init__(self, document_world: World) -> None:
        self.got: list[dict[str, str]] = []
        document_world.hosts["evil.example"] = Starlette(
            routes=[Route("/authorize", self._authorize), Route("/token", self._token, methods=["POST"])]
        )

    async def _authorize(self, request: Request) -> Response:
        return RedirectResponse(
            f"{ORIGIN}/authorize?{urlencode({**request.query_params, 'resource': MCP})}", 302
        )

    async def _token(self, request: Request) -> Response:
        self.got.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


async def attack_shared_document(document_world: World, client_id: str, redirect_uri: str) -> str | None:
    """The victim has allowed their editor our server, and connects it to the attacker's. Nobody clicks on anything.

    Their editor does not look at `iss`, which would save it.
    """
    between = Between(document_world)
    async with document_world.browser("ada") as victim:
        own = Login(client_id, redirect_uri, resource=MCP)
        assert await document_world.holds(own, await allowed(victim, own)) == "ada"
        login = Login(client_id, redirect_uri, resource="https://evil.example/mcp")
        opened = await victim.get(f"{between.issuer}/authorize", params=login.query, headers=OPENED)
        led = await victim.get(opened.headers["location"], headers=OPENED)  # as Chromium does
        code = answer(await victim.follow(led, until=redirect_uri)).get("code")
        if code is None:
            return None
        await victim.post(f"{between.issuer}/token", data=login.form(code))
    found = await document_world.tokens(between.got[-1])
    return None if found is None else await document_world.whose(found["access_token"])


@pytest.mark.parametrize("redirect_uri", [EDITOR, LOCAL])
async def test_shared_document_consent_is_not_remembered(document_world, redirect_uri):
    assert await attack_shared_document(document_world, DOCUMENT, redirect_uri) is None
    assert len(document_world.provider.to("/authorize")) == 1  # the victim's own
