"""A server of fastmcp 4.x: `fastmcp_4.py stdio|http|sse [PORT]`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import anyio
from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolListChangedNotification

server = FastMCP("fastmcp 4", version="1.0.0")
stopped: list[float] = []


@dataclass
class Person:
    name: str


@server.tool
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@server.tool
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


@server.tool
async def count_stopped() -> int:
    """Say how many calls have been cancelled."""
    return len(stopped)


@server.tool
async def change(ctx: Context) -> str:
    """Tell of a change."""
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


@server.resource("note://hello")
def note() -> str:
    """A note."""
    return "Hello"


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}"


if __name__ == "__main__":
    transport, port = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
    if transport == "stdio":
        server.run("stdio", show_banner=False)
    else:
        server.run(transport, port=port, show_banner=False, log_level="ERROR")
