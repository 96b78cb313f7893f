"""Nobody becomes somebody else, or has more than was granted, by what a provider or a client says of them."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Principal
from mcpkit.auth.proxy.logins import Logins
from mcpkit.common.errors import LoginNeededError
from tests.helpers.two_browsers import EDITOR, EVIL, MCP, ORIGIN, PROVIDER, World, answer, logged_in

pytestmark = pytest.mark.anyio


async def principal_of(world: World, user: str, **more: Any) -> Principal:
    """Log somebody in, and return who they are."""
    login = await world.client(EDITOR, **more)
    async with world.browser(user) as browser:
        tokens = await world.tokens(login.form(answer(await logged_in(world, browser, login))["code"]))
    assert tokens is not None
    return (await world.auth.verify(tokens["access_token"], MCP)).principal


SMUGGLED = {
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


async def test_claims_of_a_provider_are_none_of_the_protocols() -> None:
    """Somebody may choose what a provider says of them: no such claim grants anything."""
    world = World()
    world.provider.userinfo = {**SMUGGLED, "team": "red"}
    principal = await principal_of(world, "mallory")
    assert principal.scopes == {"notes:read"}
    assert (principal.subject, principal.issuer) == ("mallory", PROVIDER)
    assert principal.client_id is not None
    assert principal.client_id != "another"
    assert principal.claims["team"] == "red"
    for name in ("scope", "client_id", "grant", "iss", "aud", "exp", "jti"):
        assert principal.claims.get(name) != SMUGGLED[name]


async def test_the_tokens_of_the_provider_are_given_for_their_own_user_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An author's `ctx.token_for`: who asks has their own, whatever their claims say."""
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
            token = await world.auth.token_for(forged, "oauth", world.auth.ground)
        except LoginNeededError:
            return None
        return world.provider.tokens[token]

    assert world.provider.tokens[await world.auth.token_for(ada, "oauth", world.auth.ground)] == "ada"
    assert world.provider.tokens[await world.auth.token_for(mallory, "oauth", world.auth.ground)] == "mallory"
    assert await attack() is None

    async def by_the_id_alone(self: Logins, principal: Principal) -> Any:
        return await self.grants.find(str(principal.claims["grant"]))

    monkeypatch.setattr(Logins, "find", by_the_id_alone)
    assert await attack() == "ada"


async def test_a_user_of_another_provider_with_the_same_name_is_another_one() -> None:
    world = World()
    ada = await principal_of(world, "ada")
    stranger = Principal(
        ada.id,
        ada.scopes,
        claims=ada.claims,
        issuer="https://evil.example",
        subject="ada",
        client_id=ada.client_id,
    )
    with pytest.raises(LoginNeededError):
        await world.auth.token_for(stranger, "oauth", world.auth.ground)


async def test_a_grant_that_was_copied_to_another_place_does_not_open() -> None:
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


async def test_allow_hears_who_it_is_before_anything_is_given() -> None:
    heard: list[tuple[str | None, str | None]] = []

    def allow(who: Principal) -> bool:
        heard.append((who.issuer, who.subject))
        return who.subject == "ada"

    world = World(allow=allow)
    login = await world.client(EDITOR)
    for user in ("mallory", "ada"):
        async with world.browser(user) as browser:
            ended = await logged_in(world, browser, login)
        assert await world.holds(login, ended) == (user if user == "ada" else None)
        assert ("error" in answer(ended)) == (user != "ada")
    assert heard == [(PROVIDER, "mallory"), (PROVIDER, "ada")]
    assert "mallory" not in world.provider.tokens.values()  # what the provider had given is given back
    assert answer(ended)["iss"] == ORIGIN


async def test_who_is_sent_away_has_nothing_left_here_or_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def attack() -> list[str]:
        """Return whose tokens are still good after somebody was sent away."""
        world = World()
        login = await world.client(EDITOR)
        async with world.browser("mallory") as browser:
            tokens = await world.tokens(login.form(answer(await logged_in(world, browser, login))["code"]))
        assert tokens is not None
        principal = (await world.auth.verify(tokens["access_token"], MCP)).principal
        await world.server.revoke(principal)
        form = {
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": login.client_id,
        }
        again = await world.tokens(form)
        found = [await world.whose(each["access_token"]) for each in (tokens, again) if each is not None]
        return [*filter(None, found), *world.provider.tokens.values()]

    assert await attack() == []

    async def nobody(self: Logins, principal: Principal) -> None:
        pass

    monkeypatch.setattr(Logins, "end_all", nobody)
    assert set(await attack()) == {"mallory"}
