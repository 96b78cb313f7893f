"""An agent with two servers in its process, run in the environment of Claude's Agent SDK.

Prints as JSON the tools that the agent has found, and their results.
"""

import asyncio
import json
import sys
import tempfile
from typing import Annotated, Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, SystemMessage, ToolResultBlock, UserMessage

from mcpkit import Context, Server, ToolError
from mcpkit.compat.agent_sdk import ToolAnnotations, create_sdk_mcp_server, tool

server = Server("shop", version="1.0.0")


@server.tool(annotations={"readOnlyHint": True}, meta={"anthropic/maxResultSizeChars": 500_000})
async def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers."""
    await ctx.report_progress(1, 2)
    await ctx.log("info", "adding")
    return a + b


@server.tool
async def refuse() -> str:
    """Refuse."""
    raise ToolError("not today")


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user."""
    return str(await ctx.elicit("Which?", str))


@tool(
    "greet",
    "Say hello.",
    {"name": Annotated[str, "Who"]},
    annotations=ToolAnnotations(maxResultSizeChars=500_000),
)
async def greet(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"Hello, {args['name']}!"}]}


@tool("list_all", "Shows all.", {}, annotations=ToolAnnotations(maxResultSizeChars=500_000))
async def list_all(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "tea\n" * 50_000}]}


SERVERS: dict[str, Any] = {
    "shop": {"type": "sdk", "name": "shop", "instance": server.as_sdk_server()},
    "style": create_sdk_mcp_server("style", tools=[greet, list_all]),
}


async def run(model: str, home: str, tools: list[str]) -> dict[str, Any]:
    """Let Claude Code call tools; return the listed tools, and the results of the calls."""
    options = ClaudeAgentOptions(
        mcp_servers=SERVERS,
        allowed_tools=tools,
        cwd=home,
        env={
            "HOME": home, "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
        },
    )  # fmt: skip
    listed: list[str] = []
    results: list[dict[str, Any]] = []
    for _ in range(2):  # the same servers for one agent, and then for another
        async with ClaudeSDKClient(options) as client:
            await client.query("Call the tools.")
            async for message in client.receive_response():
                if isinstance(message, SystemMessage) and message.subtype == "init":
                    listed = [name for name in message.data["tools"] if name.startswith("mcp__")]
                elif isinstance(message, UserMessage) and isinstance(message.content, list):
                    results += [
                        {"content": block.content, "is_error": bool(block.is_error)}
                        for block in message.content
                        if isinstance(block, ToolResultBlock)
                    ]
    return {"tools": listed, "results": results}


if __name__ == "__main__":
    model, *tools = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="agent-", ignore_cleanup_errors=True) as home:
        print(json.dumps(asyncio.run(run(model, home, tools))))
