from mcpkit import Context, Server

server = Server("weather", version="1.0.0")


@server.tool
async def forecast(city: str, ctx: Context) -> str:
    """Return the forecast for a city.

    Args:
        city: The name of the city.
    """
    await ctx.report_progress(1, 2, "looking")
    return f"Sunny in {city}."
