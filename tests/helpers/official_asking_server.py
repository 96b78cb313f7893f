"""A server of the official SDK that asks its client, over standard input and output."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any, Literal

from mcp import UrlElicitationRequiredError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ListRoots, Resolve, Sample
from mcp_types import (
    CreateMessageResult,
    ElicitRequestURLParams,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field


class Trip(BaseModel):
    city: str = Field(title="City", min_length=2)
    days: int = 3
    style: Literal["museums", "food"] = "food"


class Bill(BaseModel):
    items: list[str]
    total: float
    tip: float | None = None


def ask_trip() -> Elicit[Trip]:
    return Elicit("Where to?", Trip)


def ask_model(trip: Annotated[Trip, Resolve(ask_trip)]) -> Sample:
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=f"What about {trip.city}?"))
    return Sample([asked], max_tokens=50)


def ask_roots() -> ListRoots:
    return ListRoots()


def make_server() -> MCPServer:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    server = MCPServer("official")
    root.setLevel(level)  # it sets up the logging of the whole process
    root.handlers[:] = handlers
    visited: set[str] = set()
    tasks: set[asyncio.Task[None]] = set()

    @server.tool()
    async def plan(
        trip: Annotated[Trip, Resolve(ask_trip)],
        said: Annotated[CreateMessageResult, Resolve(ask_model)],
        roots: Annotated[ListRootsResult, Resolve(ask_roots)],
    ) -> str:
        assert isinstance(said.content, TextContent)
        return f"{trip.city} {trip.days} {trip.style} {said.content.text} {[str(root.uri) for root in roots.roots]}"

    @server.tool()
    async def visit(ctx: Context[Any]) -> str:
        return (await ctx.elicit_url("Look", "https://example.com/1", "e1")).action

    @server.tool()
    async def files(ctx: Context[Any]) -> str:
        if "e2" not in visited:
            visited.add("e2")
            page = ElicitRequestURLParams(
                mode="url", message="Sign in", url="https://example.com/2", elicitation_id="e2"
            )
            tasks.add(asyncio.create_task(ctx.session.send_elicit_complete("e2")))
            raise UrlElicitationRequiredError([page])
        return "a.txt"

    @server.tool()
    async def bill(items: list[str], tip: float | None = None) -> Bill:
        return Bill(items=items, total=9.5 * len(items), tip=tip)

    @server.tool()
    async def count() -> int:
        return 2

    return server


if __name__ == "__main__":
    make_server().run("stdio")
