"""The official Python client logs in by the browser, and again for more."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.client.auth import OAuthClientProvider

from tests.helpers.identity_provider import providing
from tests.interop.authorization.guarded import Guarded
from tests.interop.authorization.python_client import Kept, authorization, connected
from tests.interop.authorization.user import DOCUMENT, User

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
MODES = [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
FIRST = {"legacy": "initialize", STATELESS: "tools/call whoami"}


async def journey(url: str, mode: str, auth: OAuthClientProvider) -> dict[str, Any]:
    async with connected(url, auth, mode=mode) as client:
        seen = {"revision": client.protocol_version}
        seen["before"] = (await client.call_tool("whoami")).structured_content
        seen["added"] = (await client.call_tool("add_note", {"text": "a"})).content[0].text
        seen["after"] = (await client.call_tool("whoami")).structured_content
        await client.call_tool("add_note", {"text": "b"})
    return seen


def check_journey(guarded: Guarded, user: User, mode: str, revision: str, **options: Any) -> None:
    """Go on the journey: one login with what the server wants from all, another for what a tool wants more."""
    auth = authorization(guarded.url, Kept(), user.log_in, **options)
    assert anyio.run(journey, guarded.url, mode, auth) == {
        "revision": revision,
        "before": {"subject": "bob", "scopes": ["notes:read"]},
        "added": "added",
        "after": {"subject": "bob", "scopes": ["notes:read", "notes:write"]},
    }
    assert guarded.notes == ["a", "b"]
    assert len(user.logins) == 2
    first = FIRST.get(mode, "server/discover")
    assert guarded.challenges == [(401, first, False), (403, "tools/call add_note", True)]


@pytest.mark.parametrize(("mode", "revision"), MODES)
def test_logs_in_and_steps_up(guarded, user, mode, revision):
    check_journey(guarded, user, mode, revision)


@pytest.mark.parametrize(("mode", "revision"), MODES)
def test_says_who_it_is_by_a_document(guard, user, mode, revision):
    with (
        providing(documents={DOCUMENT["client_id"]: DOCUMENT}) as provider,
        guard(provider.issuer) as guarded,
    ):
        check_journey(guarded, user, mode, revision, client_metadata_url=DOCUMENT["client_id"])
        assert provider.seen("/reg") == []
    assert "Documented" in user.logins[0].pages[1]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_goes_on_after_a_refresh(guarded, identity_provider, user, mode):
    auth = authorization(guarded.url, Kept(), user.log_in)

    def refreshes() -> int:
        tokens = identity_provider.seen("/token")
        return sum(each.params.get("grant_type") == "refresh_token" and each.status == 200 for each in tokens)

    async def journey() -> list[Any]:
        async with connected(guarded.url, auth, mode=mode) as client:
            before = (await client.call_tool("whoami")).structured_content
            auth.context.token_expiry_time = 1  # long ago
            return [before, (await client.call_tool("whoami")).structured_content]

    count = refreshes()
    before, after = anyio.run(journey)
    assert before == after == {"subject": "bob", "scopes": ["notes:read"]}
    assert refreshes() == count + 1
    assert len(user.logins) == 1
    assert len(guarded.challenges) == 1
