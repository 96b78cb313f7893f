"""A server for `mcp.server.fastmcp`, run by the library itself and by `python -m mcpkit.compat`."""

from __future__ import annotations

from typing import Annotated, Literal

import workload
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel, Field

mcp = FastMCP("bench", log_level="WARNING")


class Place(BaseModel):
    """A place."""

    name: str
    latitude: float = Field(ge=-90, le=90)


class Report(BaseModel):
    place: Place
    lines: list[str]


mcp.tool(structured_output=False)(workload.add)
mcp.tool(structured_output=False)(workload.add_sync)


@mcp.tool()
async def total(first: int, second: float, label: str) -> str:
    """Add two numbers, with an output schema made from the type hint."""
    return f"{label}: {first + second}"


@mcp.tool()
def report(
    place: Place, days: Annotated[int, Field(ge=1, le=14)] = 3, units: Literal["C", "F"] = "C"
) -> Report:
    """Report the weather of a place."""
    return Report(place=place, lines=[f"day {day}: 20 {units}" for day in range(days)])


@mcp.tool()
async def echo(text: str, ctx: Context) -> str:
    """Return a text with the id of the request."""
    return f"{text} {ctx.request_id}"


@mcp.resource("bench://state")
def state() -> str:
    """The state."""
    return "quiet"


@mcp.resource("bench://notes/{name}")
def note(name: str) -> str:
    """A note."""
    return f"note {name}"


@mcp.prompt()
def review(text: str) -> str:
    """Review a text."""
    return f"Please review: {text}"


if __name__ == "__main__":
    mcp.run()
