"""Runs as its arguments say: `runs.py TRANSPORT PORT`."""

import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

mcp = FastMCP("runs", log_level="INFO")


class Name(BaseModel):
    name: str


@mcp.tool(structured_output=False)
async def greet(ctx: Context) -> str:
    """Greet whoever says their name."""
    await ctx.info("asking")
    await ctx.report_progress(1, 2)
    answer = await ctx.elicit("Who are you?", Name)
    over = ctx.request_context.request
    return f"{answer.data.name if answer.action == 'accept' else answer.action} over {over and over.url.path}"


@mcp.resource("greeting://{name}")
def greeting(name: str, ctx: Context) -> str:
    return f"Hello, {name}, from {ctx.fastmcp.name}"


@mcp.prompt()
def ask(question: str) -> str:
    return question


if __name__ == "__main__":
    if len(sys.argv) > 2:
        mcp.settings.port = int(sys.argv[2])
    mcp.run(transport=sys.argv[1] if len(sys.argv) > 1 else "stdio")
