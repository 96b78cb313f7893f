"""The client of this package logs in by the browser, and again for more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mcpkit import Client, Loopback, MemoryTokens, OAuth, SyncClient, TransportError
from tests.helpers.browser import Browser, Login
from tests.helpers.identity_provider import IdentityProvider, providing
from tests.interop.authorization.conftest import Guard
from tests.interop.authorization.guarded import Guarded, ours

pytestmark = pytest.mark.anyio
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
DOCUMENT = {
    "client_id": "https://notebook.example.com/client.json",
    "client_name": "The notebook",
    "application_type": "native",
    "grant_types": ["authorization_code", "refresh_token"],
    "redirect_uris": ["http://127.0.0.1/callback"],
    "token_endpoint_auth_method": "none",
}


class Bob:
    """Logs in where a client opens a browser."""

    def __init__(self, log_in: Callable[[str, str], Login]) -> None:
        self._log_in = log_in
        self.logins: list[Login] = []
        self.storage = MemoryTokens()

    def visit(self, url: str) -> None:
        self.logins.append(self._log_in(url, "bob"))

    def auth(self, **options: str) -> OAuth:
        return OAuth(browser=Loopback(open_browser=self.visit), storage=self.storage, **options)


@pytest.fixture
def bob(browser: Browser) -> Iterator[Bob]:
    with browser.profile() as page:
        yield Bob(page.log_in)


async def journey(guarded: Guarded, auth: OAuth, revision: str | None) -> None:
    async with Client(guarded.url, auth=auth, revision=revision) as client:
        assert (await client.call("whoami")).structured == {"subject": "bob", "scopes": ["notes:read"]}
        assert (await client.call("add_note", {"text": "a"})).text == "added"
        after = (await client.call("whoami")).structured
        assert after == {"subject": "bob", "scopes": ["notes:read", "notes:write"]}
        await client.call("add_note", {"text": "b"})
    assert guarded.notes == ["a", "b"]


@pytest.mark.parametrize("revision", [HANDSHAKE, STATELESS])
async def test_logs_in_and_steps_up(guarded: Guarded, bob: Bob, revision: str) -> None:
    await journey(guarded, bob.auth(), revision)
    assert len(bob.logins) == 2
    first = "initialize" if revision == HANDSHAKE else "server/discover"
    assert guarded.challenges == [(401, first, False), (403, "tools/call add_note", True)]


async def test_says_who_it_is_by_a_document(guard: Guard, bob: Bob) -> None:
    with (
        providing(documents={DOCUMENT["client_id"]: DOCUMENT}) as provider,
        guard(provider.issuer) as guarded,
    ):
        await journey(guarded, bob.auth(client_metadata_url=str(DOCUMENT["client_id"])), None)
        assert provider.seen("/reg") == []


async def test_is_known_by_hand(identity_provider: IdentityProvider, bob: Bob) -> None:
    with ours(identity_provider.issuer) as guarded:
        await journey(guarded, bob.auth(client_id="public", issuer=identity_provider.issuer), None)


async def test_a_token_that_has_ended_is_refreshed_without_the_user(
    identity_provider: IdentityProvider, bob: Bob
) -> None:
    with ours(identity_provider.issuer) as guarded:
        for _ in range(3):
            async with Client(guarded.url, auth=bob.auth()) as client:
                assert (await client.call("whoami")).structured["subject"] == "bob"
            kept = await bob.storage.tokens(guarded.url)
            assert kept is not None
            await bob.storage.keep_tokens(replace(kept, expires=time.time() - 1))
        assert len(bob.logins) == 1
        assert [each.status for each in guarded.exchanges].count(401) == 1


async def test_a_provider_that_is_away_may_come_back(identity_provider: IdentityProvider, bob: Bob) -> None:
    with ours(identity_provider.issuer) as guarded:
        with identity_provider.down(), pytest.raises(TransportError, match="cannot connect") as failed:
            async with Client(guarded.url, auth=bob.auth(), tries=1):
                pass
        assert failed.value.may_pass
        async with Client(guarded.url, auth=bob.auth()) as client:
            assert (await client.call("whoami")).structured["subject"] == "bob"


def test_code_without_an_event_loop_logs_in(identity_provider: IdentityProvider, bob: Bob) -> None:
    with ours(identity_provider.issuer) as guarded, SyncClient(guarded.url, auth=bob.auth()) as client:
        assert client.call("whoami").structured == {"subject": "bob", "scopes": ["notes:read"]}
