"""A server of fastmcp 4.x: `fastmcp_4.py stdio|http|sse [PORT]`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from common import add_components
from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolListChangedNotification

server = FastMCP("fastmcp 4", version="1.0.0")
add_components(server, Context)


@dataclass
class Person:
    name: str


@server.tool
async def change(ctx: Context) -> str:
    """Notify the client of a change."""
    await ctx.send_notification(ToolListChangedNotification())
    return "told"


@server.tool
async def ask_name(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name: in rounds since 2026-07-28, where `ctx.elicit` refuses."""
    if ctx.request_context.protocol_version < "2026-07-28":
        answer = await ctx.elicit("Who are you?", Person)
        return answer.data.name if answer.action == "accept" else answer.action
    if ctx.input_responses is not None:
        return str(ctx.input_responses["who"].content["name"])
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = ElicitRequestFormParams(message="Who are you?", requested_schema=schema)
    return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)}, request_state="asked")


if __name__ == "__main__":
    transport, port = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
    if transport == "stdio":
        server.run("stdio", show_banner=False)
    else:
        server.run(transport, port=port, show_banner=False, log_level="ERROR")
