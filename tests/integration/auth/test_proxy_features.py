"""An OAuthProxy with a real provider: documents, paths, scopes, provider calls."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest

from tests.integration.auth.clients import (
    CLIENT_2,
    TokenStorage,
    User,
    authorization,
    connected,
    python_journey,
    typescript_journey,
)
from tests.integration.auth.servers import ProxyServer, serve_proxy


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


async def called(client: Any, tool: str, **arguments: str) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    text = result.content[0].text
    return json.loads(text) if text.startswith("{") else text
