"""Scopes of components, and security schemes of tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import RegistrationError, Server, tool
from tests.helpers.protected import session_of
from tests.helpers.raw_client import Client, Serve
from tests.helpers.verified import bearer

pytestmark = pytest.mark.anyio

DOCUMENT = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'


READER, WRITER, ADMIN = ("ada", ["notes:read"]), ("ada", ["notes:write"]), ("ada", ["notes:admin", "mail"])


def challenge_for(scopes: str, needs: str) -> str:
    texts = f'error="insufficient_scope", error_description="this needs more than has been granted: {needs}"'
    return f'Bearer {texts}, {DOCUMENT}, scope="{scopes}"'


REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "tool": ("tools/call", {"name": "add", "arguments": {}}, "notes:write"),
    "template": ("resources/read", {"uri": "notes://1"}, "notes:read"),
    "prompt": ("prompts/get", {"name": "send", "arguments": {"text": "x"}}, "notes:read mail"),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"name": "text", "value": ""}},
        "notes:read mail",
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_missing_scope_is_challenged_before_call(
    make: Callable[..., Server], serve: Serve, done: list[str], name: str
) -> None:
    method, params, needed = REQUESTS[name]
    async with serve(make(offers=["completions"])) as client:
        needs = needed.replace(" ", ", ")
        answer = await client.ask(method, params, headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge_for(needed, needs))
        assert answer.json()["error"]["code"] == -32600
        session = await session_of(client, bearer("ada"))
        answer = await session.ask(method, params, headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge_for(needed, needs))
        assert done == []
        assert (await client.ask(method, params, headers=bearer(*ADMIN)).whole()).status == 200
        assert (await session.ask(method, params, headers=bearer(*ADMIN)).whole()).status == 200


async def test_require_challenges_for_all_scopes_at_once(client: Client, done: list[str]) -> None:
    for token in (bearer(*WRITER), bearer("ada", ["notes:write", "mail"])):
        answer = await client.call("add", {"pinned": True}, headers=token).whole()
        texts = challenge_for("notes:admin mail", "notes:admin, mail")
        assert (answer.status, answer.headers["www-authenticate"]) == (403, texts)
    assert done == []
    assert (await client.call("add", {"pinned": True}, headers=bearer(*ADMIN)).whole()).status == 200
    assert done == ["added"]


@pytest.mark.parametrize("arguments", [{"progress": True}, {"once": True}])
async def test_require_after_output_is_error_result(
    client: Client, done: list[str], arguments: dict[str, bool]
) -> None:
    session = await session_of(client, bearer(*WRITER))
    for answer in (
        client.call("add", {"pinned": True, **arguments}, headers=bearer(*WRITER), meta={"progressToken": 1}),
        session.call("add", {"pinned": True, **arguments}, headers=bearer(*WRITER)),
    ):
        result = (await answer.response())["result"]
        assert answer.status == 200
        assert result["isError"]
        assert result["_meta"]["mcp/www_authenticate"] == [
            'Bearer error="insufficient_scope", scope="notes:admin mail"'
        ]
        assert "notes:admin" in result["content"][0]["text"]
    assert "added" not in done


def test_unknown_scope_of_component_is_refused(make: Callable[..., Server]) -> None:
    server = make()
    with pytest.raises(RegistrationError, match="did you mean 'notes:write'"):
        server.tool(scopes="notes:writ", name="w")(lambda: "x")

    @tool(name="far", may_need=["nothing"])
    def far() -> str:
        return "x"

    with pytest.raises(RegistrationError, match="tool 'far' needs 'nothing'"):
        server.include(far)
    other = Server("other")
    other.tool(scopes="elsewhere", name="there")(lambda: "x")
    with pytest.raises(RegistrationError, match="tool 'there' needs 'elsewhere'"):
        server.include(other)
    for wrong in ("a b", ["x", 3], 3):
        with pytest.raises(RegistrationError, match="scopes="):
            server.tool(scopes=wrong, name="wrong")(lambda: "x")
    with pytest.raises(RegistrationError, match="anonymous is True or False"):
        server.tool(anonymous="yes", name="wrong")(lambda: "x")


LOGIN = {"type": "oauth2", "scopes": ["notes:read"]}


@pytest.fixture
def schemes_server(make: Callable[..., Server]) -> Server:
    server = make()
    server.tool(lambda: "x", name="weather", anonymous=True)
    server.tool(lambda: "x", name="mixed", anonymous=True, may_need="mail")
    server.tool(lambda: "x", name="both", scopes=["mail", "notes:admin"], meta={"author": 1})
    server.tool(lambda: "x", name="own", meta={"securitySchemes": []})
    return server


def schemes(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {tool["name"]: tool.get("_meta", {}).get("securitySchemes") for tool in tools}


SCHEMES = {
    "whoami": [LOGIN], "add": [{"type": "oauth2", "scopes": ["notes:write"]}],
    "weather": [{"type": "noauth"}], "mixed": [{"type": "noauth"}, {"type": "oauth2", "scopes": ["mail"]}],
    "both": [{"type": "oauth2", "scopes": ["mail", "notes:admin"]}], "own": [],
}  # fmt: skip


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_tool_has_security_schemes(schemes_server: Server, serve: Serve, revision: str) -> None:
    async with serve(schemes_server) as client:
        session = await client.initialize(revision)
        tools = (await session.ask("tools/list").response())["result"]["tools"]
        if revision < "2025-06-18":
            assert not any("_meta" in tool for tool in tools)
        else:
            assert schemes(tools) == SCHEMES
