"""Weather of the United States, from the National Weather Service.

python server.py              data of api.weather.gov, or of the URL in WEATHER_API_URL
python server.py --sample     bundled sample data, without a network
python server.py --http 8000  over HTTP, for this machine only
"""

from __future__ import annotations

import argparse
import os
from typing import Annotated

from nws import API_URL, Alert, Live, NotFoundError, Period, Sample, Weather, WeatherError
from places import STATES, STATIONS, starting_with
from plot import temperature_plot
from pydantic import BaseModel, Field

from mcpkit import Complete, Context, Image, ResourceError, ResultOptions, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError

server = Server(
    "weather",
    version="1.0.0",
    title="US weather",
    description="Forecasts and alerts of the US National Weather Service.",
    instructions="Forecasts and alerts for the United States. Coordinates are in decimal degrees.",
    website_url="https://www.weather.gov",
)
weather = Weather(Live(os.environ.get("WEATHER_API_URL", API_URL)))

Latitude = Annotated[float, Field(ge=-90, le=90, description="Degrees north, such as 39.7392 for Denver")]
Longitude = Annotated[float, Field(ge=-180, le=180, description="Degrees east, such as -104.9903 for Denver")]


class Forecast(BaseModel):
    """The next seven days at one place."""

    source: str
    place: str
    periods: list[Period]


class StateAlerts(BaseModel):
    """The alerts in effect in one state."""

    source: str
    state: str
    alerts: list[Alert]


def forecast_text(forecast: Forecast) -> str:
    """Return a forecast as text for the model, a line for each period."""
    lines = [f"Forecast for {forecast.place} (source: {forecast.source})"]
    lines += [f"{period.name}: {period.temperature} °F. {period.details}" for period in forecast.periods]
    return "\n".join(lines)


def alerts_text(report: StateAlerts) -> str:
    """Return alerts as text, with their instructions."""
    count = f"{len(report.alerts) or 'No'} alert{'' if len(report.alerts) == 1 else 's'}"
    sections = [f"{count} in {report.state} (source: {report.source})"]
    sections += [
        f"{alert.event} ({alert.severity}) until {alert.expires:%Y-%m-%d %H:%M %Z}\n"
        f"Area: {alert.area}\n{alert.description}\n{alert.instruction or ''}".rstrip()
        for alert in report.alerts
    ]
    return "\n\n".join(sections)


@server.tool(
    title="Weather alerts",
    annotations={"readOnlyHint": True, "openWorldHint": True},
    result=ResultOptions(text=alerts_text),
)
async def get_alerts(state: str) -> StateAlerts:
    """Get the weather alerts that are in effect in a US state.

    Args:
        state: Two-letter code of the state or territory, for example CO.
    """
    code = state.strip().upper()
    if code not in STATES:
        raise ToolError(f"There is no US state {state!r}. Give its two letters, for example CO for Colorado.")
    try:
        alerts = await weather.alerts(code)
    except WeatherError as error:
        raise ToolError(str(error)) from error
    return StateAlerts(source=weather.source.name, state=STATES[code], alerts=alerts)


@server.tool(
    title="Weather forecast",
    annotations={"readOnlyHint": True, "openWorldHint": True},
    result=ResultOptions(text=forecast_text),
)
async def get_forecast(latitude: Latitude, longitude: Longitude, ctx: Context) -> Forecast:
    """Get the weather forecast for a place in the United States: seven days, with their nights."""
    try:
        await ctx.report_progress(0, 2, "Looking for the place on the forecast grid")
        point = await weather.point(latitude, longitude)
        place = f"{point.city}, {point.state}"
        await ctx.report_progress(1, 2, f"Reading the forecast for {place}")
        periods = await weather.periods(point)
        await ctx.report_progress(2, 2, "Done")
    except WeatherError as error:
        raise ToolError(str(error)) from error
    return Forecast(source=weather.source.name, place=place, periods=periods)


@server.tool(title="Temperature plot", annotations={"readOnlyHint": True, "openWorldHint": True})
async def plot_temperatures(latitude: Latitude, longitude: Longitude, ctx: Context) -> tuple[str, Image]:
    """Draw the temperatures of the next seven days at a place in the United States."""
    forecast = await get_forecast(latitude, longitude, ctx)
    caption = f"Temperatures in °F for {forecast.place} (source: {forecast.source})"
    return caption, Image(data=temperature_plot(forecast.periods))


@server.resource("weather://states", title="US states", mime_type="application/json")
def states() -> dict[str, str]:
    """Names of all states and territories by their two-letter codes, as get_alerts takes them."""
    return STATES


def stations_starting_with(typed: str) -> list[str]:
    """Complete a station's identifier from its first letters or those of its city."""
    return starting_with(typed, STATIONS)


def states_starting_with(typed: str) -> list[str]:
    """Complete a state's code from its first letter or those of its name."""
    return starting_with(typed, STATES)


@server.resource("weather://stations/{station_id}", title="Weather station", mime_type="application/json")
async def station(station_id: Annotated[str, Complete(stations_starting_with)]) -> dict[str, object]:
    """Where a weather station is: its name, coordinates, elevation in metres and time zone.

    Args:
        station_id: The station's identifier, for example KDEN.
    """
    try:
        found = await weather.station(station_id)
    except NotFoundError as error:
        raise ResourceNotFoundError(f"weather://stations/{station_id}") from error
    except WeatherError as error:
        raise ResourceError(str(error)) from error
    return {"source": weather.source.name, **found.model_dump()}


@server.prompt(title="Plan a trip")
def plan_trip(city: str, state: Annotated[str, Complete(states_starting_with)], days: int = 3) -> str:
    """Plan the days of a trip by the weather.

    Args:
        city: Where the trip goes, for example Denver.
        state: Two-letter code of its state, for example CO.
        days: How many days it lasts, from today.
    """
    return (
        f"I am going to {city}, {STATES.get(state.upper(), state)}, for {days} days from today. "
        f"Read the forecast for its coordinates and the alerts for {state.upper()}. Then tell me for each "
        "day what is best done outdoors and what indoors, and what to pack. Begin with any danger."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python server.py"
    )
    parser.add_argument("--sample", action="store_true", help="answer from bundled sample data")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve over HTTP, on this port of 127.0.0.1")
    options = parser.parse_args()
    if options.sample:
        weather.source = Sample()
    if options.http is None:
        server.run()
    else:
        server.run("http", port=options.http)
