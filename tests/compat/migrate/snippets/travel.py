from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel, Field

mcp = FastMCP("travel")


class Trip(BaseModel):
    city: str = Field(description="Where to")
    days: int = 3


@mcp.tool()
async def plan(ctx: Context) -> str:
    """Plan a trip."""
    result = await ctx.elicit(message="Where shall it go?", schema=Trip)
    if result.action == "accept" and result.data:
        return f"{result.data.days} days in {result.data.city}"
    return f"No trip: {result.action}"


@mcp.tool()
async def praise(city: str, ctx: Context) -> str:
    """Praise a city."""
    answer = await ctx.session.create_message(
        messages=[
            SamplingMessage(role="user", content=TextContent(type="text", text=f"Praise {city}.")),
        ],
        max_tokens=100,
    )
    return answer.content.text if answer.content.type == "text" else str(answer.content)


if __name__ == "__main__":
    mcp.run()
