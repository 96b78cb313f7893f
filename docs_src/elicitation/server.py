from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mcpkit import Context, Server

server = Server("travel")


@dataclass
class Trip:
    city: Annotated[str, Field(title="City", min_length=2)]
    days: Annotated[int, Field(ge=1, le=30)] = 3
    style: Literal["museums", "food", "walks"] = "walks"


@server.tool
async def plan(ctx: Context) -> str:
    """Plan a trip."""
    answer = await ctx.elicit("Where shall it go?", Trip)
    if not answer:
        return f"No trip then ({answer.action})."
    trip = answer.value
    guide = await ctx.elicit(f"A guide for {trip.city}?", bool)
    who = "with" if guide and guide.value else "without"
    return f"{trip.days} days of {trip.style} in {trip.city}, {who} a guide"


if __name__ == "__main__":
    server.run()
