"""What a tool does at the provider in its user's name, and how logins end there and here."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from mcpkit import Client, Context
from mcpkit.state.principal import user
from tests.helpers.browser import Profile
from tests.interop.authorization.proxy.proxied import NAME, Proxied, proxied
from tests.interop.authorization.test_client import Bob

pytestmark = pytest.mark.anyio
PATIENCE = 60.0
BOB = {"said": {"sub": "bob", "email": "bob@example.com"}, "known": "bob@example.com"}


async def asked(proxy: Proxied, bob: Bob, revision: str | None = None, tool: str = "profile") -> Any:
    async with Client(proxy.url, auth=bob.auth(), revision=revision) as client:
        return (await client.call(tool)).structured


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_tool_asks_the_provider_for_its_user(proxy: Proxied, page: Profile, revision: str) -> None:
    assert await asked(proxy, Bob(page.log_in), revision) == BOB
    assert [each.status for each in proxy.provider.seen("/me")][-1] == 200
    proxy.check_secrets(page)


async def test_tokens_of_the_provider_that_are_due_are_refreshed_for_a_tool(page: Profile) -> None:
    with proxied(provided={"token_seconds": 10}) as proxy:
        bob = Bob(page.log_in)
        deadline = time.monotonic() + PATIENCE
        while len(exchanges := proxy.provider.seen("/token")) < 3 and time.monotonic() < deadline:
            assert await asked(proxy, bob) == BOB
        assert len(bob.logins) == 1
        kinds = [each.params["grant_type"] for each in exchanges]
        assert kinds == ["authorization_code", "refresh_token", "refresh_token"]
        used = [each.params["refresh_token"] for each in exchanges[1:]]
        assert used == [each.said["refresh_token"] for each in exchanges[:-1]], "each once, the newest always"
        proxy.check_secrets(page)


async def test_who_is_sent_away_logs_in_anew_and_the_provider_hears_of_it(
    proxy: Proxied, page: Profile
) -> None:
    bob = Bob(page.log_in)
    assert (await asked(proxy, bob, tool="whoami"))["subject"] == "bob"
    async with httpx2.AsyncClient() as http:
        path = f"{proxy.url.removesuffix('/mcp')}/send-away"
        sent = await http.post(path, params={"who": user(proxy.provider.issuer, "bob").id})
    assert sent.status_code == 204, sent.text
    [first] = proxy.provider.seen("/token")
    revoked = {each.params["token"] for each in proxy.provider.seen("/token/revocation")}
    assert first.said["refresh_token"] in revoked
    assert (await asked(proxy, bob)) == BOB
    assert len(bob.logins) == 2


async def test_a_user_whom_the_provider_has_forgotten_logs_in_anew(page: Profile) -> None:
    with proxied(provided={"token_seconds": 10}) as proxy:
        bob = Bob(page.log_in)
        assert await asked(proxy, bob) == BOB
        proxy.provider.revoke("bob")
        deadline = time.monotonic() + PATIENCE
        while len(bob.logins) < 2 and time.monotonic() < deadline:
            kept = await bob.storage.tokens(proxy.url)
            assert kept is not None
            # It has to be refreshed: one that is good is taken for 30 s more after its login has ended.
            await bob.storage.keep_tokens(replace(kept, access_token="has-ended", expires=time.time() - 1))
            assert (await asked(proxy, bob, tool="whoami"))["subject"] == "bob"
        assert len(bob.logins) == 2
        assert [each.error for each in proxy.provider.seen("/token")][-2:] == ["invalid_grant", None]
        assert await asked(proxy, bob) == BOB


DRESSES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in a URL": lambda token: f"https://example.com/?{urlencode({'token': token + '=='})}",
    "in Base64 of more": lambda token: base64.b64encode(f"a {token}!".encode()).decode(),
    "in a JWT": lambda token: base64.urlsafe_b64encode(f'{{"x":"{token}"}}'.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("dress", DRESSES)
async def test_the_recorder_hears_a_tool_that_gives_a_token_away(
    proxy: Proxied, page: Profile, dress: str
) -> None:
    @proxy.server.tool(scopes="notes:read")
    async def blab(ctx: Context) -> str:
        return DRESSES[dress](await ctx.token_for(NAME))

    bob = Bob(page.log_in)
    await asked(proxy, bob, tool="whoami")
    proxy.check_secrets(page)
    async with Client(proxy.url, auth=bob.auth()) as client:
        await client.call("blab")
    with pytest.raises(AssertionError):
        proxy.check_secrets(page)
