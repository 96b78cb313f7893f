"""Clients in both eras log in by a proxy, ask for more and refresh; the provider's tokens pass none of them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from mcpkit import AuthorizationError, Client, Loopback, MemoryTokens, OAuth, SyncClient
from tests.helpers.browser import DENY, LOG_IN, OUR_ALLOW, OUR_DENY, Profile
from tests.interop.authorization.proxy.proxied import Proxied
from tests.interop.authorization.python_client import Kept, authorization, connected
from tests.interop.authorization.test_client import Bob
from tests.interop.authorization.test_python_client import MODES
from tests.interop.authorization.test_python_client import journey as in_python
from tests.interop.authorization.test_typescript import SDK_1, WAYS
from tests.interop.authorization.test_typescript import journey as in_typescript
from tests.interop.authorization.user import User

FIRST, MORE = ["notes:read"], ["notes:read", "notes:write"]


def seen(revision: str) -> dict[str, Any]:
    """What a journey with two logins sees."""
    return {
        "revision": revision,
        "before": {"subject": "bob", "scopes": FIRST},
        "added": "added",
        "after": {"subject": "bob", "scopes": MORE},
    }


@pytest.mark.parametrize(("mode", "revision"), MODES)
def test_the_official_client_in_python(
    proxy: Proxied, user: User, page: Profile, mode: str, revision: str
) -> None:
    kept = Kept()
    auth = authorization(proxy.url, kept, user.log_in)
    assert anyio.run(in_python, proxy.url, mode, auth) == seen(revision)
    assert len(user.logins) == 2
    assert kept.tokens is not None
    proxy.check_legs(logins=2)
    proxy.check_secrets(page, clients=kept.tokens.model_dump_json())


@pytest.mark.parametrize(("driver", "arguments", "revision"), WAYS)
def test_the_official_clients_in_typescript(
    proxy: Proxied, user: User, page: Profile, driver: str, arguments: tuple[str, ...], revision: str
) -> None:
    # The SDK 1.x meets the wish for more scopes with a refresh where it can, which never has them.
    grants = ["authorization_code"] if driver == SDK_1 else None
    said = in_typescript(driver, proxy.url, arguments, user.log_in, grants=grants)
    assert said["seen"] == seen(revision)
    assert len(user.logins) == 2
    proxy.check_legs(logins=2)
    proxy.check_secrets(page, clients=json.dumps(said["kept"]))


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_our_own_client(proxy: Proxied, page: Profile, revision: str) -> None:
    bob = Bob(page.log_in)

    async def journey() -> list[str]:
        async with Client(proxy.url, auth=bob.auth(), revision=revision) as client:
            steps = [("whoami", {}), ("add_note", {"text": "a"}), ("whoami", {})]
            # Results of 2025-03-26 are text alone.
            return [(await client.call(*step)).text for step in steps]

    before, added, after = anyio.run(journey)
    assert json.loads(before) == {"subject": "bob", "scopes": FIRST}
    assert added == "added"
    assert json.loads(after) == {"subject": "bob", "scopes": MORE}
    assert len(bob.logins) == 2
    tokens = anyio.run(bob.storage.tokens, proxy.url)
    assert tokens is not None
    proxy.check_legs(logins=2)
    proxy.check_secrets(page, clients=repr(asdict(tokens)))


def test_code_without_an_event_loop(proxy: Proxied, page: Profile) -> None:
    with SyncClient(proxy.url, auth=Bob(page.log_in).auth()) as client:
        assert client.call("whoami").structured == {"subject": "bob", "scopes": FIRST}


def test_the_user_is_asked_here_first_and_there_then(proxy: Proxied, user: User) -> None:
    kept = Kept()

    async def journey() -> None:
        async with connected(proxy.url, authorization(proxy.url, kept, user.log_in)) as client:
            await client.call_tool("whoami")

    anyio.run(journey)
    [login] = user.logins
    ours, log_in, consent = login.pages
    assert "Python" in ours
    assert "127.0.0.1" in ours
    assert "Read notes" in ours
    assert "Log in" in log_in
    assert "The one client" in consent
    assert "Python" not in log_in + consent
    assert login.answer["iss"] == proxy.url.removesuffix("/mcp")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_refresh_by_the_client_needs_no_user(proxy: Proxied, user: User, page: Profile, mode: str) -> None:
    kept = Kept()
    auth = authorization(proxy.url, kept, user.log_in)

    async def journey() -> list[Any]:
        async with connected(proxy.url, auth, mode=mode) as client:
            before = (await client.call_tool("whoami")).structured_content
            auth.context.token_expiry_time = 1  # long ago
            return [before, (await client.call_tool("whoami")).structured_content]

    assert anyio.run(journey) == [{"subject": "bob", "scopes": FIRST}] * 2
    answers = proxy.wire.seen("/token", "POST")
    assert [each.asked["grant_type"] for each in answers] == ["authorization_code", "refresh_token"]
    first, second = (each.said["refresh_token"] for each in answers)
    assert first != second
    assert len(user.logins) == 1
    proxy.check_secrets(page)


@pytest.mark.anyio
@pytest.mark.parametrize("is_asked_there", [False, True], ids=["here", "at the provider"])
async def test_a_client_hears_of_a_user_who_says_no(
    proxy: Proxied, page: Profile, is_asked_there: bool
) -> None:
    ends: list[str] = []

    def show(url: str) -> None:
        page.open(url)
        if is_asked_there:
            page.follow(OUR_ALLOW)
            page.fill("[name=login]", "bob")
            page.fill("[name=password]", "bob's")
            page.follow(LOG_IN)
            page.follow(DENY)
        else:
            page.follow(OUR_DENY)
        ends.append(page.seen()[-1]["url"])

    auth = OAuth(browser=Loopback(open_browser=show), storage=MemoryTokens())
    with pytest.raises(AuthorizationError, match="access_denied"):
        async with Client(proxy.url, auth=auth) as client:
            await client.call("whoami")
    assert parse_qs(urlsplit(ends[0]).query)["iss"] == [proxy.url.removesuffix("/mcp")]
    assert len(proxy.provider.seen("/auth")) == (1 if is_asked_there else 0)
    assert proxy.provider.seen("/token") == []
    assert "login" not in [event.name for event in proxy.events]


@pytest.mark.anyio
async def test_our_client_goes_on_with_what_it_has_kept(proxy: Proxied, page: Profile) -> None:
    bob = Bob(page.log_in)
    for _ in range(3):
        async with Client(proxy.url, auth=bob.auth()) as client:
            assert (await client.call("whoami")).structured["subject"] == "bob"
        kept = await bob.storage.tokens(proxy.url)
        assert kept is not None
        await bob.storage.keep_tokens(replace(kept, expires=time.time() - 1))
    assert len(bob.logins) == 1
    assert len(proxy.provider.seen("/auth")) == 1
