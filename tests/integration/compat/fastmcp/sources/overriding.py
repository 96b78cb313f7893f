"""Servers of the kind that change what FastMCP does: subclasses, its low-level server, and its managers."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.fastmcp.prompts import Prompt
from mcp.server.fastmcp.server import Settings
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolResult,
    ContentBlock,
    GetPromptResult,
    ListToolsRequest,
    ListToolsResult,
    PromptMessage,
    ServerResult,
    SetLevelRequest,
    TextContent,
    Tool,
)


class Guarded(FastMCP):
    """Hides tools, guards and counts their calls, and serves itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls = 0

    async def list_tools(self) -> list[Tool]:
        tools = [tool for tool in await super().list_tools() if not tool.name.startswith("hidden")]
        for tool in tools:
            tool.description = f"{tool.description} ({len(tools)} tools)"
        return tools

    async def call_tool(
        self, name: str, arguments: dict[str, Any]
    ) -> Sequence[ContentBlock] | dict[str, Any]:
        self.calls += 1
        context = self.get_context()
        if arguments.get("refuse"):
            raise ToolError(f"refused {name}, request {context.request_id}")
        if name == "whole":
            return CallToolResult(
                content=[TextContent(type="text", text="whole")], isError=True, _meta={"a": 1}
            )
        if name == "content":
            return [TextContent(type="text", text=f"call {self.calls}")]
        if name == "dict":
            return {"calls": self.calls}
        return await super().call_tool(name, arguments)

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        if name == "own":
            message = PromptMessage(role="user", content=TextContent(type="text", text="own"))
            return GetPromptResult(description="d", messages=[message])
        return await super().get_prompt(name, arguments)

    async def run_stdio_async(self) -> None:
        print("served by itself", file=sys.stderr, flush=True)
        async with stdio_server() as (read_stream, write_stream):
            options = self._mcp_server.create_initialization_options()
            options.server_version = "7.7.7"
            await self._mcp_server.run(read_stream, write_stream, options)


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[dict[str, Any]]:
    server.add_tool(late, name="late")
    yield {"tools": len(server._tool_manager.list_tools())}


def late() -> str:
    """Added in the lifespan."""
    return "late"


mcp: FastMCP = Guarded("guarded", lifespan=lifespan)


@mcp.tool()
def hidden_one(a: int) -> int:
    return a


@mcp.tool(description="An echo")
def echo(text: str, refuse: bool = False) -> str:
    return text


@mcp.tool()
def whole() -> str:
    return ""


@mcp.tool()
def content() -> str:
    return ""


@mcp.tool()
def dict_() -> dict[str, int]:
    return {}


@mcp.tool(name="dict")
def dictionary() -> dict[str, int]:
    return {}


@mcp.tool()
def state(ctx: Context) -> dict[str, Any]:
    return dict(ctx.request_context.lifespan_context)


@mcp.tool()
async def change(name: str, ctx: Context) -> str:
    mcp.add_tool(lambda: name, name=name, description="new")
    await ctx.session.send_tool_list_changed()
    await ctx.request_context.session.send_resource_updated("x://y")
    return "changed"


@mcp.tool()
def remove(name: str) -> str:
    mcp.remove_tool(name)
    return "removed"


@mcp.tool()
def replaced() -> str:
    return "as it was"


mcp._tool_manager._tools["replaced"].fn = lambda: "replaced"
mcp._tool_manager._tools["replaced"].description = "Described again"
mcp._prompt_manager._prompts["made"] = Prompt.from_function(lambda: "made", name="made", description="Made")
levels: list[str] = []


@mcp._mcp_server.set_logging_level()
async def set_level(level: str) -> None:
    levels.append(level)


@mcp._mcp_server.subscribe_resource()
async def subscribe(uri: Any) -> None:
    levels.append(str(uri))


@mcp.tool()
def heard() -> list[str]:
    return levels


async def list_all(request: ListToolsRequest) -> ServerResult:
    listed = await plain(request)
    listed.root.tools.append(Tool(name="by hand", inputSchema={"type": "object"}))
    return ServerResult(ListToolsResult(tools=listed.root.tools, _meta={"n": len(listed.root.tools)}))


plain = mcp._mcp_server.request_handlers[ListToolsRequest]
mcp._mcp_server.request_handlers[ListToolsRequest] = list_all
assert SetLevelRequest in mcp._mcp_server.request_handlers
assert isinstance(mcp.settings, Settings)

if __name__ == "__main__":
    mcp.run("stdio")
