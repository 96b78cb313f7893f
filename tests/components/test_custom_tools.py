"""Tools of one's own classes: results pass unchanged, arguments are validated before they run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import pytest

from mcpkit import BaseTool, Context, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

Upstream = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Calls a tool of the other server: its name and arguments; the result as it has come over the wire."""


Fetch = Callable[[str, str], Awaitable[Any]]
"""Sends a request: method and path; the JSON value of the answer."""


class ProxyTool(BaseTool):
    """A tool of another server, which validates its arguments itself."""

    def __init__(self, upstream: Upstream, listed: Mapping[str, Any]) -> None:
        super().__init__(
            listed["name"],
            description=listed.get("description"),
            input_schema=listed["inputSchema"],
            output_schema=listed.get("outputSchema"),
            validates=False,
        )
        self.upstream = upstream

    async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        await ctx.progress(0, 1, "asking the other server")
        result = await self.upstream(self.name, arguments)
        await ctx.progress(1, 1)
        return result


class Operation(BaseTool):
    """An operation of a web interface, whose path has parameters."""

    def __init__(self, fetch: Fetch, method: str, path: str, schema: Mapping[str, Any]) -> None:
        super().__init__(schema["operationId"], input_schema=schema["parameters"])
        self.fetch, self.method, self.path = fetch, method, path

    async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        path = self.path.format_map({name: quote(str(value), safe="") for name, value in arguments.items()})
        data = await self.fetch(self.method, path)
        return {"content": [], "structuredContent": data}


LISTED: dict[str, Any] = {
    "name": "far.away", "description": "Do it elsewhere.",
    "inputSchema": {"type": "object", "$defs": {"City": {"type": "string", "x-case": "title"}},
        "properties": {"city": {"$ref": "#/$defs/City"}}, "required": ["city"]},
    "outputSchema": {"type": "object", "properties": {"warm": {"type": "boolean"}}},
}  # fmt: skip
RESULT: dict[str, Any] = {
    "content": [{"type": "text", "text": "warm", "x-new": [1]}, {"type": "hologram", "data": "AAAA"}],
    "structuredContent": {"warm": "not quite", "more": None},
    "isError": True, "_meta": {"com.example/price": 3},
}  # fmt: skip


async def answer(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {**RESULT, "_meta": {**RESULT["_meta"], "name": name, "arguments": arguments}}


async def test_base_tool_result_passes_unchanged() -> None:
    server = Server("front")
    server.add(ProxyTool(answer, LISTED))
    async with connect(server) as client:
        assert (await client.list_tools())[0].items() >= LISTED.items()
        result = (await client.call("far.away", {"city": 7, "unknown": "too"})).data
    assert {name: result[name] for name in RESULT if name != "_meta"} == {
        name: value for name, value in RESULT.items() if name != "_meta"
    }
    assert result["_meta"].items() >= RESULT["_meta"].items()
    assert result["_meta"]["arguments"] == {"city": 7, "unknown": "too"}


async def test_base_tool_validates_arguments_before_execute() -> None:
    sent: list[tuple[str, str]] = []

    async def fetch(method: str, path: str) -> Any:
        sent.append((method, path))
        return {"name": "Rex"}

    schema = {
        "operationId": "getPet",
        "parameters": {
            "type": "object",
            "properties": {"pet": {"type": "string"}},
            "required": ["pet"],
            "additionalProperties": False,
        },
    }
    server = Server("front")
    server.add(Operation(fetch, "GET", "/pets/{pet}", schema))
    async with connect(server) as client:
        refused = await client.call("getPet", {"pet": 5.5})
        assert refused.is_error
        assert "pet" in refused.text
        assert (await client.call("getPet", {"pet": "../admin"})).structured == {"name": "Rex"}
    assert sent == [("GET", "/pets/..%2Fadmin")]
