"""A server of the official Python SDK 2.x: `mcp_2.py stdio|http|sse [PORT]`."""

from __future__ import annotations

import sys
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("mcp 2", version="1.0.0", log_level="ERROR")
stopped: list[float] = []


class Person(BaseModel):
    name: str


def who() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


def capital() -> Sample:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="The capital of Norway?"))
    return Sample([question], max_tokens=10)


def roots() -> ListRoots:
    return ListRoots()


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
    await ctx.notify_tools_changed()
    return "told"


@server.tool()
async def ask_name(person: Annotated[Person, Resolve(who)]) -> str:
    """Ask for a name."""
    return person.name


@server.tool()
async def ask_model(answer: Annotated[CreateMessageResult, Resolve(capital)]) -> str:
    """Ask the client's model."""
    return answer.content.text if isinstance(answer.content, TextContent) else "?"


@server.tool()
async def ask_roots(answer: Annotated[ListRootsResult, Resolve(roots)]) -> str:
    """Ask for the roots."""
    return ", ".join(str(root.uri) for root in answer.roots)


@server.resource("note://hello")
def note() -> str:
    """A note."""
    return "Hello"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}"


if __name__ == "__main__":
    transport, port = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
    if transport == "stdio":
        server.run("stdio")
    else:
        server.run("sse" if transport == "sse" else "streamable-http", port=port)
