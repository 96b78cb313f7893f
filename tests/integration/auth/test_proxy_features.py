"""An OAuthProxy with a real provider: documents, paths, scopes, provider calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import pytest

from mcpkit import Client, OAuth
from tests.helpers.browser import Profile
from tests.helpers.oauth_flow import Login, client_documents
from tests.integration.auth.clients import (
    CLIENT_2,
    DOCUMENT,
    ClientUser,
    TokenStorage,
    User,
    authorization,
    connected,
    python_journey,
    typescript_journey,
)
from tests.integration.auth.servers import ProxyServer, serve_proxy


@pytest.fixture
def fetched_urls() -> Iterator[list[str]]:
    with client_documents({str(DOCUMENT["client_id"]): DOCUMENT}) as requested:
        yield requested


def by_python(proxy: ProxyServer, page: Profile) -> None:
    user = User(page)
    auth = authorization(proxy.url, TokenStorage(), user.log_in, client_metadata_url=DOCUMENT["client_id"])
    assert anyio.run(python_journey, proxy.url, "auto", auth)["added"] == "added"


def by_typescript(proxy: ProxyServer, page: Profile) -> None:
    user = User(page)
    result = typescript_journey(CLIENT_2, proxy.url, ("auto",), user.log_in, document=DOCUMENT["client_id"])
    assert result["seen"]["added"] == "added"


def by_ours(proxy: ProxyServer, page: Profile) -> None:
    bob = ClientUser(lambda url, name: page.log_in(url, name))
    auth = bob.auth(client_metadata_url=str(DOCUMENT["client_id"]))
    anyio.run(client_journey, proxy.url, auth)


@pytest.mark.parametrize("journey", [by_python, by_typescript, by_ours])
def test_client_with_document_does_not_register(proxy, page, fetched_urls, journey):
    journey(proxy, page)
    assert fetched_urls == [DOCUMENT["client_id"]], "once, for both logins"
    assert proxy.wire.seen("/register", "POST") == []
    clients = {event.client_id for event in proxy.events if event.name == "login"}
    assert clients == {DOCUMENT["client_id"]}
    proxy.check_legs(logins=2)
    proxy.check_secrets(page)


def origin_of(proxy: ProxyServer) -> str:
    return proxy.url.removesuffix("/mcp")


@pytest.mark.parametrize("path", ["/realms/one"])
def test_issuer_with_path(page, path):
    with serve_proxy(issuer=path) as proxy:
        stored = TokenStorage()
        user = User(page)
        auth = authorization(proxy.url, stored, user.log_in)
        assert anyio.run(python_journey, proxy.url, "auto", auth)["added"] == "added"
        result = typescript_journey(CLIENT_2, proxy.url, ("auto",), user.log_in)
        assert result["seen"]["added"] == "added"
        issuers = {login.answer["iss"] for login in user.logins}
        assert issuers == {f"{origin_of(proxy)}{path}"}
        where = f"{origin_of(proxy)}/.well-known"
        documents = [
            f"{where}/oauth-authorization-server{path}",
            f"{where}/openid-configuration{path}",
            f"{origin_of(proxy)}{path}/.well-known/openid-configuration",
        ]
        assert {httpx2.get(each).raise_for_status().json()["issuer"] for each in documents} == issuers
        proxy.check_legs(logins=4, issuer=path)


@pytest.mark.parametrize("mode", ["auto"])
def test_tool_requires_more_scopes_during_call(proxy, page, mode):
    user = User(page)

    async def journey() -> list[Any]:
        async with connected(
            proxy.url, authorization(proxy.url, TokenStorage(), user.log_in), mode=mode
        ) as client:
            # One at a time: this client logs in for more once in a call.
            return [
                await called(client, "add_note", text="a"),
                await called(client, "pin_note", text="b"),
                await called(client, "whoami"),
            ]

    everything = {"subject": "bob", "scopes": ["notes:admin", "notes:read", "notes:write"]}
    assert anyio.run(journey) == ["added", "pinned", everything]
    assert [each for each in proxy.guarded.challenges if each[0] == 403] == [
        (403, "tools/call add_note", True),
        (403, "tools/call pin_note", True),
    ]
    requested = [
        parse_qs(urlsplit(f"?{each.query}").query)["scope"] for each in proxy.wire.seen("/authorize")
    ]
    assert len(requested) == 3
    assert "Change the notes of everybody" in user.logins[2].pages[0]
    proxy.check_legs(logins=3)


def test_sse_endpoint_is_separate_audience(proxy, page):
    url = f"{origin_of(proxy)}/sse"
    stored = TokenStorage()

    async def journey() -> Any:
        auth = authorization(url, stored, User(page).log_in)
        async with connected(url, auth, mode="legacy") as client:
            return await called(client, "whoami")

    assert anyio.run(journey) == {"subject": "bob", "scopes": ["notes:read"]}
    assert stored.tokens is not None
    headers = {"Authorization": f"Bearer {stored.tokens.access_token}"}
    assert httpx2.post(proxy.url, json={}, headers=headers).status_code == 401


WEB_CLIENTS = [
    ("Claude", "https://claude.ai/api/mcp/auth_callback", {}),
    ("ChatGPT", "https://chatgpt.com/connector_platform_oauth_redirect", {"scope": ""}),
    ("Cursor", "cursor://anysphere.cursor-mcp/oauth/callback", {}),
]


@pytest.mark.parametrize(("name", "callback", "more"), WEB_CLIENTS)
def test_web_and_private_scheme_clients_log_in(proxy, page, name, callback, more):
    parts = urlsplit(callback)
    where = parts.hostname if parts.scheme == "https" else parts.scheme
    assert where is not None
    metadata = {
        "client_name": name,
        "redirect_uris": [callback],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
    with httpx2.Client(base_url=origin_of(proxy)) as client:
        answer = client.post("/register", json=metadata)
        assert answer.status_code == 201, answer.text
        login = Login(answer.json()["client_id"], callback, resource=proxy.url, **more)
        end = page.log_in(f"{origin_of(proxy)}/authorize?{urlencode(login.query)}", "bob", answers=True)
        assert name in end.pages[0]
        assert where in end.pages[0]
        assert ("this device" in end.pages[0]) == (where == "cursor")
        assert end.answer["state"] == login.query["state"]
        tokens = client.post("/token", data=login.form(end.answer["code"])).raise_for_status().json()
    assert tokens["refresh_token"]
    proxy.check_legs(logins=1)


async def called(client: Any, tool: str, **arguments: str) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    text = result.content[0].text
    return json.loads(text) if text.startswith("{") else text


async def client_journey(url: str, auth: OAuth) -> None:
    async with Client(url, auth=auth) as client:
        assert (await client.call("whoami")).structured == {"subject": "bob", "scopes": ["notes:read"]}
        assert (await client.call("add_note", {"text": "a"})).text == "added"
