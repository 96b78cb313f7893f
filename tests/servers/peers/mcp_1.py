"""A server of the official Python SDK 1.x: `mcp_1.py stdio|http|sse [PORT]`."""

from __future__ import annotations

import sys

from common import add_components
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

TRANSPORT, PORT = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
server = FastMCP("mcp 1", log_level="ERROR", port=PORT)
add_components(server, Context)


class Person(BaseModel):
    name: str


@server.tool()
async def change(ctx: Context) -> str:
    """Notify the client of a change."""
    await ctx.session.send_tool_list_changed()
    return "told"


@server.tool()
async def ask_name(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("Who are you?", Person)
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def ask_model(ctx: Context) -> str:
    """Ask the client's model."""
    question = SamplingMessage(role="user", content=TextContent(type="text", text="The capital of Norway?"))
    answer = await ctx.session.create_message([question], max_tokens=10, related_request_id=ctx.request_id)
    return answer.content.text


@server.tool()
async def ask_roots(ctx: Context) -> str:
    """Ask for the roots."""
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


if __name__ == "__main__":
    server.run({"stdio": "stdio", "http": "streamable-http", "sse": "sse"}[TRANSPORT])
