"""The weather of the United States: the quick start of MCP's documentation, in our own words.

It is written for the official SDK: `mcpkit run --compat weather.py` runs it on mcpkit as it is.
"""

import os
from typing import Any

import httpx
from mcpkit.compat.mcp_fastmcp import FastMCP

mcp = FastMCP("weather")

API_URL = os.environ.get("WEATHER_API_URL", "https://api.weather.gov")
HEADERS = {"User-Agent": "mcpkit-quickstart/1.0", "Accept": "application/geo+json"}


async def ask(url: str) -> dict[str, Any] | None:
    """What the National Weather Service answers; None if it does not."""
    async with httpx.AsyncClient(headers=HEADERS, timeout=30.0) as client:
        try:
            answer: dict[str, Any] = (await client.get(url)).raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return None
    return answer


def in_words(alert: dict[str, Any]) -> str:
    """An alert as lines of text."""
    about = alert["properties"]
    return "\n".join(
        [
            f"Event: {about.get('event', 'Unknown')}",
            f"Area: {about.get('areaDesc', 'Unknown')}",
            f"Severity: {about.get('severity', 'Unknown')}",
            f"Description: {about.get('description') or 'There is none.'}",
            f"Instructions: {about.get('instruction') or 'There are none.'}",
        ]
    )


@mcp.tool()
async def get_alerts(state: str) -> str:
    """Get the weather alerts of a US state.

    Args:
        state: The state's two letters, such as CA or NY
    """
    found = await ask(f"{API_URL}/alerts/active?area={state}")
    if found is None:
        return "The weather service does not answer."
    return "\n---\n".join(map(in_words, found["features"])) or "There are no alerts in this state."


@mcp.tool()
async def get_forecast(latitude: float, longitude: float) -> str:
    """Get the weather forecast of a place.

    Args:
        latitude: How far north the place is, in degrees
        longitude: How far east the place is, in degrees
    """
    point = await ask(f"{API_URL}/points/{latitude},{longitude}")
    if point is None:
        return "The weather service knows no forecast for this place."
    forecast = await ask(f"{API_URL}/gridpoints/{grid(point['properties'])}/forecast")
    if forecast is None:
        return "The weather service does not answer."
    return "\n---\n".join(
        f"{period['name']}\n"
        f"Temperature: {period['temperature']}°{period['temperatureUnit']}\n"
        f"Wind: {period['windSpeed']} {period['windDirection']}\n"
        f"Forecast: {period['detailedForecast']}"
        for period in forecast["properties"]["periods"][:5]
    )


def grid(point: dict[str, Any]) -> str:
    """The square of the forecast's grid in which a point lies."""
    return f"{point['gridId']}/{point['gridX']},{point['gridY']}"


if __name__ == "__main__":
    mcp.run(transport="stdio")
