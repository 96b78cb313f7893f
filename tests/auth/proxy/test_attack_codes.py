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
from mcpkit.auth import VerifierUnavailableError
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
    World,
    answer,
    consented,
    form_of,
)
from tests.helpers.oauth_flow import Login, client_documents

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> World:
    return World()


async def principal_of(world: World, tokens: dict[str, Any]) -> Principal:
    return (await world.auth.verify(tokens["access_token"], MCP)).principal


@pytest.mark.parametrize("openid", [False, True], ids=["oauth", "openid"])
@pytest.mark.parametrize(
    ("owner", "browser"), [("ada", "mallory"), ("mallory", "ada")], ids=["stolen", "injected"]
)
async def test_provider_code_of_another_login_is_rejected(openid, owner, browser, monkeypatch):
    """PKCE on the provider's leg, and the nonce where there are ID tokens: either of them is enough."""
    world = World(openid=openid)

    async def attack() -> str | None:
        """Bring the provider's code of one login to the callback of the other, with the right state."""
        login = await world.client(EVIL)
        async with world.browser(owner) as first, world.browser(browser) as second:
            forwarded = await consented(first, await world.client(EDITOR))
            code = answer(await first.follow(forwarded, until=f"{ORIGIN}/callback"))["code"]
            state = answer(await consented(second, login))["state"]
            return await world.holds(
                login, await second.get("/callback", params={"code": code, "state": state})
            )

    assert await attack() is None
    world.provider.has_pkce = False
    if openid:
        assert await attack() is None
        begin = Transactions.begin

        def begin_with_one_nonce(self: Transactions, *of: Any, **more: Any) -> Any:
            return replace(begin(self, *of, **more), nonce="always the same")

        monkeypatch.setattr(Transactions, "begin", begin_with_one_nonce)
    assert await attack() == owner


class Attacker:
    """An authorization server that sends browsers on to ours, and receives the codes of its own client."""

    issuer = "https://evil.example"

    def __init__(self, world: World) -> None:
        self.forms: list[dict[str, str]] = []
        routes = [Route("/authorize", self.authorize), Route("/token", self.token, methods=["POST"])]
        world.hosts["evil.example"] = Starlette(routes=routes)

    async def authorize(self, request: Request) -> Response:
        query = {**request.query_params, "resource": MCP}
        return RedirectResponse(f"{ORIGIN}/authorize?{urlencode(query)}", 302)

    async def token(self, request: Request) -> Response:
        self.forms.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


async def test_mix_up_is_detected_by_iss(world):
    """Mix-up: the victim connects their editor to the attacker's server, whose `/authorize` sends them on to us.

    They see our page for their own editor, and may well allow it. `iss` (RFC 9207) then keeps the code from the
    attacker's token endpoint, if the client checks it.
    """
    attacker = Attacker(world)

    async def attack(*, checks_iss: bool) -> str | None:
        login = await world.client(EDITOR)
        async with world.browser("ada") as victim:
            opened = await victim.get(f"{attacker.issuer}/authorize", params=login.query)
            page = await victim.follow(opened, until="https://none")
            sent = await victim.post("/authorize", data=form_of(page), headers={"Origin": ORIGIN})
            received = answer(await victim.follow(sent, until=EDITOR))
            assert received["iss"] == ORIGIN
            if checks_iss and received["iss"] != attacker.issuer:
                return None
            await victim.post(f"{attacker.issuer}/token", data=login.form(received["code"]))
        return await world.user_of_form(attacker.forms[-1])

    assert await attack(checks_iss=True) is None
    assert attacker.forms == []
    assert await attack(checks_iss=False) == "ada"


async def test_token_of_another_server_is_rejected(world):
    """Two servers with one secret and one store: a token is for the server whose page was shown."""
    token = (await world.logged_in("ada"))["access_token"]
    assert await world.user_of(token) == "ada"
    other = World(shared=world.shared, origin="https://other.example.com")
    for auth, audience in (
        (world.auth, "https://mcp.example.com/other"),
        (other.auth, "https://other.example.com/mcp"),
        (other.auth, MCP),
    ):
        with pytest.raises(InvalidTokenError):
            await auth.verify(token, audience)


async def test_provider_token_is_rejected(world):
    """Token passthrough: a token that the provider issued, to whatever client, is not accepted here."""
    login = await world.client(EDITOR)
    await world.logged_in("ada")
    assert world.provider.tokens
    for token in world.provider.tokens:
        assert await world.user_of(token) is None
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": login.client_id}
        assert await world.tokens(form) is None
        async with world.browser() as machine:
            refused = await machine.post("/mcp", json={}, headers={"Authorization": f"Bearer {token}"})
            assert refused.status_code == 401
            assert token not in refused.text + str(refused.headers)


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


async def test_provider_claims_do_not_override_protocol_claims(world):
    """Users may choose what a provider says about them: no such claim grants anything."""
    world.provider.told = lambda claims: {**claims, **PROTOCOL_CLAIMS, "team": "red"}
    principal = await principal_of(world, await world.logged_in("mallory"))
    assert principal.scopes == {"notes:read"}
    assert (principal.subject, principal.issuer) == ("sub-of-mallory", PROVIDER)
    assert principal.client_id not in {None, "another"}
    assert principal.claims["team"] == "red"
    for name in ("scope", "client_id", "grant", "iss", "aud", "exp", "jti"):
        assert principal.claims.get(name) != PROTOCOL_CLAIMS[name]


async def test_token_for_forged_grant_is_rejected(world):
    """`ctx.upstream_token` is the caller's own token, whatever the caller's claims say."""
    ada, mallory = [await principal_of(world, await world.logged_in(user)) for user in ("ada", "mallory")]
    for principal, user in ((ada, "ada"), (mallory, "mallory")):
        token = await world.auth.token_for(principal, "oauth", world.auth.context)
        assert world.provider.user_of(token) == user
    forged = Principal(
        mallory.id,
        mallory.scopes,
        claims={**mallory.claims, "grant": ada.claims["grant"]},
        issuer=mallory.issuer,
        subject=mallory.subject,
        client_id=mallory.client_id,
    )
    with pytest.raises(LoginNeededError):
        await world.auth.token_for(forged, "oauth", world.auth.context)


async def test_grant_record_moved_is_rejected(world):
    """An attacker who can write to the store puts the victim's record in the place of their own."""
    tokens = await world.logged_in("mallory", EVIL)
    own = (await principal_of(world, tokens)).claims["grant"]
    victims = (await principal_of(world, await world.logged_in("ada"))).claims["grant"]
    records = {key: stored async for key, stored in world.shared.items("")}
    [target] = [key for key in records if str(own) in key]
    [source] = [key for key in records if str(victims) in key]
    await world.shared.put(target, records[source].value, version=records[target].version, ttl=600)
    with pytest.raises(VerifierUnavailableError):
        await world.auth.verify(tokens["access_token"], MCP)


DOCUMENT = "https://editor.example.org/client.json"
LOCAL = "http://127.0.0.1:3000/callback"
OPENED = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("redirect_uri", [EDITOR, LOCAL])
async def test_shared_document_consent_is_not_remembered(world, redirect_uri):
    """The victim has allowed their editor our server, and connects it to the attacker's. No user clicks on anything.

    All users of the editor share its client ID. Their editor does not check `iss`, which would help.
    """
    attacker = Attacker(world)
    document = {"client_id": DOCUMENT, "client_name": "Editor", "redirect_uris": [EDITOR, LOCAL]}
    with client_documents({DOCUMENT: document}):
        async with world.browser("ada") as victim:
            own = Login(DOCUMENT, redirect_uri, resource=MCP)
            page = await victim.get("/authorize", params=own.query, headers=OPENED)
            assert f'name="{FIELD}"' not in page.text
            form = {**form_of(page), FIELD: "yes"}
            sent: httpx2.Response = await victim.post("/authorize", data=form, headers={"Origin": ORIGIN})
            assert await world.holds(own, await victim.follow(sent, until=redirect_uri)) == "ada"
            login = Login(DOCUMENT, redirect_uri, resource="https://evil.example/mcp")
            opened = await victim.get(f"{attacker.issuer}/authorize", params=login.query, headers=OPENED)
            shown = await victim.get(opened.headers["location"], headers=OPENED)  # as Chromium does
        assert form_of(shown)
        assert len([login for login in world.provider.logins if login.user == "ada"]) == 1
