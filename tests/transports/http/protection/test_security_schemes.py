"""What ChatGPT and others want to know of each tool: whether it takes a login, and which scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Context, Provider, Server, Tool
from mcpkit.testing import connect
from tests.helpers.asgi_client import Serve
from tests.helpers.verified import Table, bearer

pytestmark = pytest.mark.anyio

LOGIN = {"type": "oauth2", "scopes": ["notes:read"]}
EVERY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


@pytest.fixture
def hinted(make: Callable[..., Server]) -> Server:
    server = make()
    server.tool(lambda: "x", name="weather", anonymous=True)
    server.tool(lambda: "x", name="mixed", anonymous=True, may_need="mail")
    server.tool(lambda: "x", name="both", scopes=["mail", "notes:admin"], meta={"author": 1})
    server.tool(lambda: "x", name="own", meta={"securitySchemes": []})
    return server


def schemes(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {tool["name"]: tool.get("_meta", {}).get("securitySchemes") for tool in tools}


ALL = {
    "whoami": [LOGIN],
    "add": [{"type": "oauth2", "scopes": ["notes:write"]}],
    "weather": [{"type": "noauth"}],
    "mixed": [{"type": "noauth"}, {"type": "oauth2", "scopes": ["mail"]}],
    "both": [{"type": "oauth2", "scopes": ["mail", "notes:admin"]}],
    "own": [],
}


@pytest.mark.parametrize("revision", EVERY[:-1])
async def test_each_tool_says_so_where_the_revision_has_room_for_it(
    hinted: Server, serve: Serve, revision: str
) -> None:
    async with serve(hinted) as client:
        session = await client.initialize(revision)
        tools = (await session.ask("tools/list").response())["result"]["tools"]
        if revision < "2025-06-18":
            assert not any("_meta" in tool for tool in tools)
        else:
            assert schemes(tools) == ALL


async def test_so_it_does_without_sessions_for_anybody(hinted: Server, serve: Serve) -> None:
    async with serve(hinted) as client:
        for token in ({}, bearer("ada"), bearer("ada", ["notes:admin"])):
            tools = (await client.ask("tools/list", headers=token).response())["result"]["tools"]
            assert schemes(tools) == ALL
            assert next(tool for tool in tools if tool["name"] == "both")["_meta"]["author"] == 1


async def test_other_lists_say_nothing_of_it(hinted: Server, serve: Serve) -> None:
    async with serve(hinted) as client:
        for method in ("prompts/list", "resources/templates/list"):
            body = (await client.ask(method).whole()).body
            assert b"securitySchemes" not in body


async def test_tools_of_providers_say_so_as_well(serve: Serve, table: Table) -> None:
    class Found(Provider):
        kinds = frozenset({"tools"})

        async def list(self, kind: str, ctx: Context) -> list[Any]:
            return [Tool(lambda: "x", name="found", scopes="mail")] if kind == "tools" else []

    server = Server("s", auth=table, scopes={"mail": "Send mail"})
    server.include(Found())
    async with serve(server) as client:
        listed = await client.ask("tools/list", headers=bearer("ada")).response()
        assert schemes(listed["result"]["tools"]) == {"found": [{"type": "oauth2", "scopes": ["mail"]}]}


@pytest.mark.parametrize("revision", EVERY)
async def test_a_server_without_auth_says_nothing_of_it(revision: str) -> None:
    server = Server("s", scopes={"mail": "Send mail"})
    server.tool(lambda: "x", name="send", scopes="mail")
    async with connect(server, revision=revision) as client:
        (tool,) = (await client.request("tools/list"))["tools"]
    assert "_meta" not in tool
