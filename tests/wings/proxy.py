"""A toy proxy: tools of another server, and operations of a web interface. No Python function stands behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from mcpkit import BaseTool, Context, ToolError

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


class AskingProxy(ProxyTool):
    """One that wants the user's consent first."""

    async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        answer = await ctx.elicit(f"May {self.name} be called?", bool)
        if not (answer and answer.value):
            raise ToolError("the user has not agreed")
        return await super().execute(arguments, ctx)


class Operation(BaseTool):
    """An operation of a web interface, whose path has parameters."""

    def __init__(self, fetch: Fetch, method: str, path: str, schema: Mapping[str, Any]) -> None:
        super().__init__(schema["operationId"], input_schema=schema["parameters"])
        self.fetch, self.method, self.path = fetch, method, path

    async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        path = self.path.format_map({name: quote(str(value), safe="") for name, value in arguments.items()})
        data = await self.fetch(self.method, path)
        return {"content": [], "structuredContent": data}
