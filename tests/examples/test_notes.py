"""The example of a protected server: it logs in users of its own, or those of an authorization server that is real."""

from __future__ import annotations

import sys

import pytest

from mcpkit import Client
from tests.helpers.identity_provider import providing
from tests.helpers.logging_in import User
from tests.helpers.serving import ROOT, Served

pytestmark = pytest.mark.anyio

EXAMPLE = ROOT / "examples" / "notes" / "server.py"


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_it_logs_in_users_of_its_own(revision: str) -> None:
    with Served([sys.executable, str(EXAMPLE)], PORT=0) as server:
        url = f"{server.origin}/mcp"
        ada, grace = User("ada"), User("grace")
        async with Client(url, auth=ada.auth, revision=revision) as client:
            assert (await client.call("whoami")).structured == {"subject": "ada", "scopes": ["notes:read"]}
            assert (await client.call("list_notes")).text == "[]"
            assert "number 1" in (await client.call("add_note", {"text": "Buy milk"})).text
            assert (await client.call("whoami")).structured["scopes"] == ["notes:read", "notes:write"]
        async with Client(url, auth=grace.auth, revision=revision) as client:
            assert (await client.call("list_notes")).text == "[]"
        async with Client(url, auth=ada.auth, revision=revision) as client:  # with the tokens that are kept
            assert "Buy milk" in (await client.call("list_notes")).text
        assert [len(each.asked) for each in (ada, grace)] == [2, 1]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_an_authorization_server_logs_them_in(revision: str) -> None:
    public_url = "https://notes.example.com/mcp"
    with (
        providing() as provider,
        Served(
            [sys.executable, str(EXAMPLE)], PORT=0, ISSUER=provider.issuer, PUBLIC_URL=public_url
        ) as server,
    ):
        token = provider.token("ada", "notes:write", public_url)
        async with Client(f"{server.origin}/mcp", token=token, revision=revision) as client:
            whoami = (await client.call("whoami")).structured
            assert whoami == {"subject": "ada", "scopes": ["notes:read", "notes:write"]}
            await client.call("add_note", {"text": "Buy milk"})
            assert "Buy milk" in (await client.call("list_notes")).text
