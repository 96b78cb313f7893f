from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mcpkit import Context, Server

server = Server("travel")


@dataclass
class Trip:
    city: Annotated[str, Field(title="City", min_length=2)]
    days: Annotated[int, Field(ge=1, le=30)] = 3
    style: Literal["museums", "food"] = "food"


@server.tool
async def plan(ctx: Context) -> str:
    """Plan a trip."""
    answer = await ctx.elicit("Where do you want to go?", Trip)
    if not answer:
        return "No trip, then."
    trip = answer.value
    return f"{trip.days} days of {trip.style} in {trip.city}"


@server.tool
async def pay(ctx: Context) -> str:
    """Pay for the trip."""
    answer = await ctx.elicit_url(
        "Please pay.", "https://pay.example.com/7", done=lambda: True
    )
    return "Paid." if answer else "Not paid."


@server.tool
async def praise(city: str, ctx: Context) -> str:
    """Praise a city."""
    return (await ctx.sample(f"Praise {city}!", max_tokens=50)).text


@server.tool
async def folders(ctx: Context) -> list[str]:
    """Return the roots of the client."""
    return [root.uri for root in await ctx.list_roots()]
