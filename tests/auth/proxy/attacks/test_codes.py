"""Codes and tokens in the wrong hands: injected, redeemed by another, mixed up, stolen, brought elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mcpkit.auth.authority import grants as grants_module
from mcpkit.auth.authority.grants import GrantRecord, Grants
from mcpkit.auth.authority.parts import Parts
from mcpkit.auth.proxy.transactions import Transactions
from mcpkit.auth.verifier import InvalidTokenError
from tests.helpers.authority_site import Login
from tests.helpers.two_browsers import (
    EDITOR,
    EVIL,
    MCP,
    ORIGIN,
    World,
    answer,
    consented,
    form_of,
    logged_in,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["oauth", "openid"])
def world(request: pytest.FixtureRequest) -> World:
    return World(openid=request.param)


# Codes of ours


async def test_a_stolen_code_is_worth_nothing_without_its_verifier(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The victim's code leaks from the client's callback (a log, a referrer, another program at that scheme)."""

    async def attack() -> str | None:
        login = await world.client(EDITOR)
        async with world.browser("ada") as victim:
            code = answer(await logged_in(world, victim, login))["code"]
        guess = Login(login.client_id, EDITOR, resource=MCP)
        found = await world.tokens(guess.form(code))
        return None if found is None else await world.whose(found["access_token"])

    assert await attack() is None
    monkeypatch.setattr(grants_module, "_is_verified", lambda verifier, challenge: True)
    assert await attack() == "ada"


async def test_the_attackers_code_is_none_at_the_victims_client(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code injection: what the victim writes from then on would be the attacker's to read."""

    async def attack() -> str | None:
        login = await world.client(EDITOR)
        same = Login(login.client_id, EDITOR, resource=MCP)
        async with world.browser("mallory") as attacker:
            code = answer(await logged_in(world, attacker, same))["code"]
        found = await world.tokens(login.form(code))  # the victim's client, with its own verifier
        return None if found is None else await world.whose(found["access_token"])

    assert await attack() is None
    monkeypatch.setattr(grants_module, "_is_verified", lambda verifier, challenge: True)
    assert await attack() == "mallory"


async def test_the_code_of_one_client_is_none_of_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knows the code and its verifier is still another client."""

    async def attack() -> str | None:
        login, other = await world.client(EDITOR), await world.client(EVIL)
        async with world.browser("ada") as victim:
            code = answer(await logged_in(world, victim, login))["code"]
        found = await world.tokens(login.form(code, client_id=other.client_id, redirect_uri=None))
        return None if found is None else await world.whose(found["access_token"])

    assert await attack() is None
    redeem = Grants.redeem

    async def by_anybody(self: Grants, code: str, client_id: str, *rest: Any) -> GrantRecord:
        record = await self.find(code.partition(".")[0])
        assert record is not None
        return await redeem(self, code, record.client_id, *rest)

    monkeypatch.setattr(Grants, "redeem", by_anybody)
    assert await attack() == "ada"


# Codes of the provider's


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
async def test_a_code_of_the_provider_is_for_the_login_that_asked_for_it(
    world: World, attack: Any, got: str
) -> None:
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


async def test_both_legs_have_challenges_of_their_own(world: World) -> None:
    login = await world.client(EDITOR)
    async with world.browser("ada") as browser:
        await logged_in(world, browser, login)
    [sent] = world.provider.to("/authorize")
    assert sent["code_challenge_method"] == "S256"
    assert sent["code_challenge"] != login.query["code_challenge"]
    assert sent["state"] != login.query["state"]
    [form] = world.provider.to("/token")
    assert form["code_verifier"] != login.verifier
    for secret in (login.verifier, login.query["state"], login.client_id):
        assert secret not in str(world.provider.asked)


# Mix-up


class Attacker:
    """A server whose authorization server sends browsers on to ours, and takes what comes back to its own client."""

    def __init__(self, world: World) -> None:
        self.issuer = "https://evil.example"
        self.got: list[dict[str, str]] = []
        world.hosts["evil.example"] = Starlette(
            routes=[
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    async def _authorize(self, request: Request) -> Response:
        query = {**request.query_params, "resource": MCP}
        return RedirectResponse(f"{ORIGIN}/authorize?{urlencode(query)}", 302)

    async def _token(self, request: Request) -> Response:
        self.got.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


async def test_a_client_that_looks_at_iss_gives_our_code_to_nobody_else(world: World) -> None:
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


async def test_an_error_says_who_says_it_too(world: World) -> None:
    login = await world.client("http://127.0.0.1:3000/callback", scope="nothing-that-there-is")
    async with world.browser() as browser:
        failed = await browser.get("/authorize", params=login.query)
    assert answer(failed)["iss"] == ORIGIN


# Tokens


async def test_a_refresh_token_that_was_stolen_ends_all_that_its_theft_gave(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attacker refreshes, the victim does later: from then on neither has anything, here or at the provider."""

    async def attack() -> str | None:
        login = await world.client(EDITOR)
        async with world.browser("ada") as victim:
            code = answer(await logged_in(world, victim, login))["code"]
        tokens = await world.tokens(login.form(code))
        assert tokens is not None
        form = {"grant_type": "refresh_token", "client_id": login.client_id}
        stolen = await world.tokens({**form, "refresh_token": tokens["refresh_token"]})
        assert stolen is not None
        assert await world.whose(stolen["access_token"]) == "ada"
        again = await world.tokens({**form, "refresh_token": stolen["refresh_token"]})
        assert again is not None
        await world.tokens(
            {**form, "refresh_token": tokens["refresh_token"]}
        )  # the victim, with the first one
        assert await world.tokens({**form, "refresh_token": again["refresh_token"]}) is None
        return await world.whose(again["access_token"])

    assert await attack() is None
    assert world.provider.to("/revoke")
    assert world.provider.tokens == {}

    async def kept(self: Parts, record: GrantRecord) -> None:
        pass

    monkeypatch.setattr(Parts, "end", kept)
    with pytest.raises(AssertionError):  # the family lives
        await attack()


async def test_a_refresh_token_is_for_its_client_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def attack() -> str | None:
        login, other = await world.client(EDITOR), await world.client(EVIL)
        async with world.browser("ada") as victim:
            tokens = await world.tokens(login.form(answer(await logged_in(world, victim, login))["code"]))
        assert tokens is not None
        form = {"grant_type": "refresh_token", "client_id": other.client_id}
        found = await world.tokens({**form, "refresh_token": tokens["refresh_token"]})
        return None if found is None else await world.whose(found["access_token"])

    assert await attack() is None
    kept = Grants._kept

    async def of_anybody(self: Grants, grant_id: str) -> Any:
        found = await kept(self, grant_id)
        return None if found is None else (replace(found[0], client_id=Anybody(found[0].client_id)), found[1])

    class Anybody(str):
        """Equal to every client."""

        def __ne__(self, other: object) -> bool:
            return False

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    monkeypatch.setattr(Grants, "_kept", of_anybody)
    assert await attack() == "ada"


async def test_a_token_of_another_server_is_none_here(world: World) -> None:
    """Two servers with one secret and one store: a token is for the one whose page was shown."""
    login = await world.client(EDITOR)
    async with world.browser("ada") as victim:
        tokens = await world.tokens(login.form(answer(await logged_in(world, victim, login))["code"]))
    assert tokens is not None
    assert await world.whose(tokens["access_token"]) == "ada"
    with pytest.raises(InvalidTokenError, match="another resource"):
        await world.auth.verify(tokens["access_token"], "https://mcp.example.com/other")
    other = World(shared=world.shared, origin="https://other.example.com")
    with pytest.raises(InvalidTokenError):
        await other.auth.verify(tokens["access_token"], "https://other.example.com/mcp")
    with pytest.raises(InvalidTokenError):
        await other.auth.verify(tokens["access_token"], MCP)


async def test_a_token_of_the_providers_is_none_of_ours(world: World) -> None:
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


async def test_nothing_that_a_client_or_a_browser_sees_is_a_token_of_the_providers(world: World) -> None:
    login = await world.client(EDITOR)
    async with world.browser("ada") as victim:
        ended = await logged_in(world, victim, login)
        tokens = await world.tokens(login.form(answer(ended)["code"]))
        assert tokens is not None
        seen = [str(tokens), str(ended.headers), str(victim.cookies)]
    assert world.provider.tokens
    for token in world.provider.tokens:
        assert not any(token in each for each in seen)
