"""A server of the official Python SDK 2.x: `mcp_2.py stdio|http|sse [PORT]`."""

from __future__ import annotations

import sys
from typing import Annotated

from common import add_components
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("mcp 2", version="1.0.0", log_level="ERROR")
add_components(server, Context)


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
async def change(ctx: Context) -> str:
    """Notify the client of a change."""
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


if __name__ == "__main__":
    transport, port = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
    if transport == "stdio":
        server.run("stdio")
    else:
        server.run("sse" if transport == "sse" else "streamable-http", port=port)
