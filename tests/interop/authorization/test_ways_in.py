"""Less ordinary ways into a protected server of ours, with the official clients and a real provider."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Context, Scope, Server
from mcpkit.auth import Jwt
from tests.helpers.identity_provider import SERVICE, providing
from tests.helpers.serving import in_thread_at
from tests.interop.authorization.guarded import ours
from tests.interop.authorization.python_client import Kept, authorization, connected

MODES = ["legacy", "auto"]


@pytest.fixture
def server(identity_provider):
    with ours(identity_provider.issuer) as server:
        yield server


async def called(client: Any, tool: str, **arguments: str) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    text = result.content[0].text
    return json.loads(text) if text.startswith("{") else text


def test_http_with_sse_is_an_audience_of_its_own(server, identity_provider, user):
    url = server.url.removesuffix("/mcp") + "/sse"
    kept = Kept()

    async def journey() -> tuple[Any, Any]:
        async with connected(url, authorization(url, kept, user.log_in), mode="legacy") as client:
            return await called(client, "whoami"), await client.call_tool("add_note", {"text": "a"})

    who, refused = anyio.run(journey)
    assert who == {"subject": "bob", "scopes": ["notes:read"]}
    # Its answers come by the stream, where there is no status: the result says what is missing.
    assert refused.is_error
    assert refused.meta == {
        "mcp/www_authenticate": ['Bearer error="insufficient_scope", scope="notes:write"']
    }
    assert server.notes == []
    assert identity_provider.seen("/auth")[-1].params["resource"] == url
    assert kept.tokens is not None
    headers = {"Authorization": f"Bearer {kept.tokens.access_token}"}
    assert httpx2.post(server.url, json={}, headers=headers).status_code == 401


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_that_asks_for_more_in_its_midst(server, user, mode):
    async def journey() -> list[Any]:
        async with connected(server.url, authorization(server.url, Kept(), user.log_in), mode=mode) as client:
            # One at a time: this client logs in for more once in a call.
            return [
                await called(client, "add_note", text="a"),
                await called(client, "pin_note", text="b"),
                await called(client, "whoami"),
            ]

    everything = {"subject": "bob", "scopes": ["notes:admin", "notes:read", "notes:write"]}
    assert anyio.run(journey) == ["added", "pinned", everything]
    assert server.notes == ["a", "b, pinned"]
    assert [each for each in server.challenges if each[0] == 403] == [
        (403, "tools/call add_note", True),
        (403, "tools/call pin_note", True),
    ]
    assert len(user.logins) == 3


@pytest.mark.parametrize("mode", MODES)
def test_a_service_without_a_user(server, identity_provider, mode):
    auth = ClientCredentialsOAuthProvider(
        server.url, Kept(), *SERVICE, scope="notes:read", issuer=identity_provider.issuer
    )

    async def journey() -> Any:
        async with connected(server.url, auth, mode=mode) as client:
            return await called(client, "whoami")

    assert anyio.run(journey) == {"subject": None, "scopes": ["notes:read"]}


@pytest.mark.parametrize("mode", MODES)
def test_two_mounted_servers_have_two_issuers(browser, mode):
    def mounted(name: str, issuer: str, origin: str) -> Any:
        server = Server(name, auth=Jwt(issuer), scopes={"notes:read": Scope("Read notes", default=True)})

        @server.tool(scopes="notes:read")
        def whoami(ctx: Context) -> str:
            return f"{ctx.principal.subject} at {name}"

        return server.asgi(public_url=f"{origin}/{name}/mcp")

    with (
        providing() as first,
        providing(path="/realms/two", algorithm="ES256") as second,
        browser.profile() as page,
    ):

        def make(origin: str) -> Any:
            one, two = mounted("one", first.issuer, origin), mounted("two", second.issuer, origin)
            routes = [*one.well_known(), *two.well_known(), Mount("/one", one), Mount("/two", two)]
            return Starlette(routes=routes)

        with in_thread_at(make) as origin:
            kept = {"one": Kept(), "two": Kept()}

            async def journey(name: str, who: str) -> Any:
                url = f"{origin}/{name}/mcp"
                auth = authorization(url, kept[name], lambda request: page.log_in(request, who, answers=True))
                async with connected(url, auth, mode=mode) as client:
                    return await called(client, "whoami")

            assert anyio.run(journey, "one", "ada") == "ada at one"
            assert anyio.run(journey, "two", "bob") == "bob at two"
            for name, other in (("one", "two"), ("two", "one")):
                tokens = kept[other].tokens
                assert tokens is not None
                headers = {"Authorization": f"Bearer {tokens.access_token}"}
                refused = httpx2.post(f"{origin}/{name}/mcp", json={}, headers=headers)
                assert refused.status_code == 401
                assert (
                    f"{origin}/{name}/.well-known/oauth-protected-resource/mcp"
                    in refused.headers["WWW-Authenticate"]
                )


PAGE = """async ([url, token]) => {
    const challenge = await fetch(url, {method: "POST", body: "{}", headers: {"Content-Type": "application/json"}});
    const [, document] = challenge.headers.get("WWW-Authenticate").match(/resource_metadata="([^"]+)"/);
    const metadata = await (await fetch(document)).json();
    const headers = {
        Authorization: `Bearer ${token}`,
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "whoami",
    };
    const _meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    };
    const params = {name: "whoami", arguments: {}, _meta};
    const body = JSON.stringify({jsonrpc: "2.0", id: 1, method: "tools/call", params});
    const answer = await (await fetch(url, {method: "POST", headers, body})).json();
    return [challenge.status, metadata.resource, answer.result.structuredContent];
}"""
"""What a client in a page does: it reads the challenge, the metadata, and the answer."""


def test_a_page_of_another_origin(server, identity_provider, browser):
    token = identity_provider.token("ada", "notes:read", server.url)
    with browser.profile() as page:
        page.open(f"{identity_provider.issuer}/.well-known/openid-configuration")
        seen = page.evaluate(f"({PAGE})({json.dumps([server.url, token])})")
    assert seen == [401, server.url, {"subject": "ada", "scopes": ["notes:read"]}]
