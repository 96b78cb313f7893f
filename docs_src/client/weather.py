from mcpkit import Context, Server
from mcpkit.exceptions import ChallengeError

server = Server("weather", version="1.0.0")


@server.tool
async def forecast(city: str, ctx: Context) -> str:
    """Return the forecast for a city.

    Args:
        city: The name of the city.
    """
    await ctx.report_progress(1, 2, "looking")
    return f"Sunny in {city}."


@server.tool
async def history(years: int) -> str:
    """Return the weather of past years, a word for each day."""
    return "sunny " * 365 * years


@server.tool
async def publish(text: str) -> str:
    """Publish a warning, which needs a scope."""
    challenge = 'Bearer error="insufficient_scope", scope="weather:write"'
    raise ChallengeError(403, challenge)


if __name__ == "__main__":
    server.run("http", port=9000)
