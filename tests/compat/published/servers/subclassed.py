"""A subclass that changes what is listed and called, and looks into what lies beneath."""

import logging
from collections.abc import Sequence
from typing import Any

from mcp import types
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.tools.base import Tool
from mcp.server.fastmcp.utilities.func_metadata import func_metadata
from mcp.types import CallToolRequest, ContentBlock, TextContent, ToolAnnotations

logger = logging.getLogger("subclassed")
called: list[str] = []


class Watched(FastMCP):
    """Counts the calls, hides a tool, and takes nothing that a tool does not know."""

    def __init__(self, *args: Any, version: str = "7.1", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._mcp_server.version = version
        self.add_tool(self.calls, name="calls", description="What was called before.")
        self._keep_call = self._mcp_server.request_handlers[CallToolRequest]
        self._mcp_server.request_handlers[CallToolRequest] = self._strict

    async def calls(self) -> list[str]:
        return [*called]

    async def _strict(self, request: CallToolRequest) -> types.ServerResult:
        known = self._tool_manager.get_tool(request.params.name)
        more = (
            set(request.params.arguments or {}) - set(known.parameters.get("properties", {}))
            if known
            else set()
        )
        if more:
            said = TextContent(type="text", text=f"Of nobody: {', '.join(sorted(more))}")
            return types.ServerResult(types.CallToolResult(content=[said], isError=True))
        return await self._keep_call(request)

    async def list_tools(self) -> list[types.Tool]:
        tools = [tool for tool in await super().list_tools() if not tool.name.startswith("hidden")]
        for tool in tools:
            tool.inputSchema = {**tool.inputSchema, "additionalProperties": False}
            tool.description = f"{tool.description} (watched)"
        return tools

    async def call_tool(
        self, name: str, arguments: dict[str, Any]
    ) -> Sequence[ContentBlock] | dict[str, Any]:
        called.append(name)
        try:
            return await super().call_tool(name, arguments)
        except Exception as error:
            logger.info("failed: %s", name)
            return [TextContent(type="text", text=f"{name} failed: {error}")]


mcp = Watched("subclassed", version="7.2")


def keep(
    text: str,
    count: int = 1,
) -> str:
    """Keep a text."""
    return text * count


def made(rows: list[int], scale: float = 2.0) -> dict[str, list[float]]:
    return {"rows": [row * scale for row in rows]}


mcp.add_tool(keep, annotations=ToolAnnotations(readOnlyHint=True))
mcp.tool("hidden one")(keep)

tool = Tool.from_function(made, name="made", description="Made by hand.")
mcp._tool_manager._tools["made"] = tool


async def replaced(**arguments: Any) -> str:
    return f"replaced {sorted(arguments.items())}"


other = Tool.from_function(keep, name="replaced", description="Another function behind the same arguments.")
mcp._tool_manager._tools["replaced"] = other.model_copy(update={"fn": replaced, "is_async": True})
assert func_metadata(keep, skip_names=["count"]).arg_model.model_json_schema()["required"] == ["text"]


@mcp.tool()
def forget(name: str) -> str:
    """Remove a tool."""
    mcp.remove_tool(name)
    return f"{len(mcp._tool_manager.list_tools())} are left"


if __name__ == "__main__":
    mcp.run()
