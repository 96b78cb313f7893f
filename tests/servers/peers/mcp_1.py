"""A server of the official Python SDK 1.x: `mcp_1.py stdio|http|sse [PORT]`."""

from __future__ import annotations

import sys

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

TRANSPORT, PORT = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
server = FastMCP("mcp 1", log_level="ERROR", port=PORT)
stopped: list[float] = []


class Person(BaseModel):
    name: str


@server.tool()
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@server.tool()
async def wait(seconds: float, ctx: Context) -> str:
    """Wait, and say so thrice before."""
    try:
        for step in (1, 2, 3):
            await ctx.report_progress(step, 3)
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        stopped.append(seconds)
        raise
    return "waited"


@server.tool()
async def count_stopped() -> int:
    """Say how many calls have been cancelled."""
    return len(stopped)


@server.tool()
async def change(ctx: Context) -> str:
    """Tell of a change."""
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


@server.resource("note://hello")
def note() -> str:
    """A note."""
    return "Hello"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}"


if __name__ == "__main__":
    server.run({"stdio": "stdio", "http": "streamable-http", "sse": "sse"}[TRANSPORT])
