"""Logins of users: registration, authorization request, tokens, over each transport."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Client
from mcpkit.auth import DevAuth
from mcpkit.client import MemoryTokens, OAuth
from mcpkit.client.authorization.client_authentication import PublicClient
from mcpkit.exceptions import AuthorizationError
from tests.helpers.authorization_server import Clicks, Granting, clicking, notes
from tests.helpers.oauth_flow import User
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_login_once_and_token_is_sent_with_each_request(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), protocol_version=revision) as client:
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
        await client.list_tools(use_cache=False)
    assert [endpoint for endpoint, _ in server.asked] == ["register", "authorize", "token"]
    [token] = server.live
    assert server.authorizations[0] is None
    assert set(server.authorizations[1:]) == {f"Bearer {token}"}
    assert len(server.authorizations) >= 4


async def test_login_requests_follow_specification(server: Granting) -> None:
    server.metadata = {"scopes_supported": ["notes:read", "offline_access"]}
    async with Client(server.url, auth=clicking(client_name="The notebook")):
        pass
    [registration] = server.of("register")
    assert registration == {
        "client_name": "The notebook",
        "redirect_uris": ["http://127.0.0.1:3999/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "scope": "notes:read offline_access",
    }
    [page], [token] = server.of("authorize"), server.of("token")
    assert page["response_type"] == "code"
    assert page["resource"] == token["resource"] == server.url
    assert page["scope"] == "notes:read offline_access"
    assert page["prompt"] == "consent"
    assert page["code_challenge_method"] == "S256"
    assert (token["grant_type"], "scope" in token, "client_secret" in token) == (
        "authorization_code",
        False,
        False,
    )
    assert len(token["code_verifier"]) >= 43


async def test_registration_is_reused_with_its_redirect_uri(server: Granting) -> None:
    storage = MemoryTokens()
    server.may_refresh = False
    browser = Clicks()
    for _ in range(2):
        server.live.clear()
        async with Client(server.url, auth=OAuth(browser=browser, storage=storage)) as client:
            await client.call_tool("whoami")
    assert len(server.of("register")) == 1
    assert len(browser.visits) == 2
    assert browser.registered == [(), ("http://127.0.0.1:3999/callback",)]


async def test_login_with_other_issuer_sends_nothing(server: Granting) -> None:
    auth = clicking(client_id="notebook", client_secret="the secret of it", issuer="https://id.example.com")
    with pytest.raises(AuthorizationError, match=r"not 'https://id\.example\.com'"):
        await client_that_lists(server, auth)
    assert server.asked == []


async def test_login_uses_client_metadata_document_where_supported(server: Granting) -> None:
    url = "https://notebook.example.com/client.json"
    async with Client(server.url, auth=clicking(client_metadata_url=url)) as client:
        await client.call_tool("whoami")
    assert len(server.of("register")) == 1
    server.metadata = {"client_id_metadata_document_supported": True}
    async with Client(server.url, auth=clicking(client_metadata_url=url)) as client:
        await client.call_tool("whoami")
    assert len(server.of("register")) == 1
    assert server.of("authorize")[-1]["client_id"] == server.of("token")[-1]["client_id"] == url


async def client_that_lists(server: Granting, auth: OAuth) -> None:
    async with Client(server.url, auth=auth) as client:
        await client.list_tools()


def served() -> Any:
    return in_thread_at(
        lambda origin: notes(DevAuth(users=["ada", "grace"])).asgi(public_url=f"{origin}/mcp")
    )


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
async def test_dev_auth_login_and_step_up(revision: str) -> None:
    ada = User("ada")
    with served() as origin:
        async with Client(f"{origin}/mcp", auth=ada.auth, protocol_version=revision) as client:
            assert (await client.call_tool("whoami")).text == "ada: notes:read"
            assert (await client.call_tool("add_note", {"text": "milk"})).text == "added milk"
            assert (await client.call_tool("whoami")).text == "ada: notes:read notes:write"
    assert ada.asked == [{"notes:read"}, {"notes:read", "notes:write"}]


@pytest.mark.parametrize(("options", "wrong"), [
    ({"client_id": "a"}, "requires issuer="),
    ({"client_secret": "a"}, "requires client_id="),
    ({"issuer": "http://id.example.com"}, "not encrypted"),
    ({"client_metadata_url": "http://localhost/client.json"}, "must begin with https://"),
    ({"client_metadata_url": "https://example.com"}, "have a path"),
    ({"authentication": PublicClient("another")}, "must equal client_id="),
])  # fmt: skip
def test_oauth_invalid_options_are_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        clicking(**options)
