"""A client of the US National Weather Service's API (https://www.weather.gov/documentation/services-web-api).

`Weather` turns the API's GeoJSON into the few models below. Where the GeoJSON comes from is the
`Source`'s business: the network (`Live`) or the bundled files (`Sample`).
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from http.client import HTTPException
from math import dist
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from pydantic import AliasPath, BaseModel, Field, ValidationError

API_URL = "https://api.weather.gov"
USER_AGENT = "mcpkit-weather-example/1.0"  # the service asks for a name, and would like your address too
TIMEOUT = 10.0  # seconds for one answer
SAMPLE_FOLDER = Path(__file__).parent / "sample"

Model = TypeVar("Model", bound=BaseModel)


class WeatherError(Exception):
    """There is no answer; the text says why, and what to do about it."""


class NotFoundError(WeatherError):
    """The service answers, but knows nothing of this place."""


class Point(BaseModel):
    """The square of the service's forecast grid in which a pair of coordinates lies."""

    office: str = Field(validation_alias=AliasPath("properties", "gridId"))
    x: int = Field(validation_alias=AliasPath("properties", "gridX"))
    y: int = Field(validation_alias=AliasPath("properties", "gridY"))
    city: str = Field(validation_alias=AliasPath("properties", "relativeLocation", "properties", "city"))
    state: str = Field(validation_alias=AliasPath("properties", "relativeLocation", "properties", "state"))


class Period(BaseModel):
    """Half a day of a forecast."""

    name: str = Field(description="For example: Tonight, Saturday, Saturday Night")
    start: datetime = Field(validation_alias="startTime")
    is_daytime: bool = Field(validation_alias="isDaytime")
    temperature: int = Field(description="Degrees Fahrenheit: the day's highest or the night's lowest")
    rain_chance: int | None = Field(
        validation_alias=AliasPath("probabilityOfPrecipitation", "value"), description="Percent"
    )
    wind: str = Field(validation_alias="windSpeed", description="For example: 5 to 10 mph")
    wind_from: str = Field(validation_alias="windDirection", description="For example: NW")
    summary: str = Field(validation_alias="shortForecast")
    details: str = Field(validation_alias="detailedForecast")


class Periods(BaseModel):
    """A forecast as the API sends it."""

    periods: list[Period] = Field(validation_alias=AliasPath("properties", "periods"), min_length=1)


class Alert(BaseModel):
    """A warning, watch or advisory that is in effect."""

    event: str = Field(validation_alias=AliasPath("properties", "event"))
    severity: str = Field(validation_alias=AliasPath("properties", "severity"))
    urgency: str = Field(validation_alias=AliasPath("properties", "urgency"))
    area: str = Field(validation_alias=AliasPath("properties", "areaDesc"))
    headline: str | None = Field(None, validation_alias=AliasPath("properties", "headline"))
    description: str = Field(validation_alias=AliasPath("properties", "description"))
    instruction: str | None = Field(None, validation_alias=AliasPath("properties", "instruction"))
    expires: datetime = Field(validation_alias=AliasPath("properties", "expires"))


class Alerts(BaseModel):
    """The alerts of a state as the API sends them."""

    alerts: list[Alert] = Field(validation_alias="features")


class Station(BaseModel):
    """A place where the weather is observed."""

    id: str = Field(validation_alias=AliasPath("properties", "stationIdentifier"))
    name: str = Field(validation_alias=AliasPath("properties", "name"))
    latitude: float = Field(validation_alias=AliasPath("geometry", "coordinates", 1))
    longitude: float = Field(validation_alias=AliasPath("geometry", "coordinates", 0))
    elevation: float | None = Field(
        validation_alias=AliasPath("properties", "elevation", "value"), description="Metres above sea level"
    )
    time_zone: str = Field(validation_alias=AliasPath("properties", "timeZone"))


class Source(Protocol):
    """Where the API's answers come from."""

    name: str

    async def get(self, path: str) -> bytes:
        """Return the answer to `GET path`.

        Raises:
            NotFoundError: There is nothing at this path.
            WeatherError: There is no answer.
        """
        ...


class Live:
    """The API itself, or a proxy or a test server that speaks its format.

    Args:
        url: Where it is, without a slash at its end.

    Raises:
        ValueError: The URL is not one of HTTP.
    """

    name = "National Weather Service"

    def __init__(self, url: str = API_URL) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the API's URL must begin with http:// or https://, not {url!r}")
        self.url = url.rstrip("/")

    async def get(self, path: str) -> bytes:
        """Ask the network; urllib blocks, so it does that in a thread."""
        try:
            return await asyncio.wait_for(asyncio.to_thread(self._read, path), TIMEOUT)
        except HTTPError as error:
            error.close()
            if error.code == 404:
                raise NotFoundError(
                    f"The National Weather Service has nothing at {path}. "
                    "It covers the United States and its territories only."
                ) from error
            raise self._failure(f"answered {error.code} {error.reason}") from error
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise self._failure(f"did not answer within {TIMEOUT:g} seconds") from error
        except URLError as error:
            raise self._failure(f"cannot be reached ({error.reason})") from error
        except (OSError, HTTPException) as error:
            raise self._failure(f"broke off its answer ({str(error) or type(error).__name__})") from error

    def _read(self, path: str) -> bytes:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/geo+json"}
        with urlopen(Request(self.url + path, headers=headers), timeout=TIMEOUT) as response:
            body: bytes = response.read()
        return body

    def _failure(self, what: str) -> WeatherError:
        return WeatherError(
            f"The National Weather Service at {self.url} {what}. Try again in a minute, "
            "or start this server with --sample to work with its bundled sample data."
        )


class Sample:
    """Answers of the API in files, whose names are the paths: `sample/stations/KDEN.json`."""

    name = "bundled sample data, NOT the real weather"

    async def get(self, path: str) -> bytes:
        """Read the file; coordinates less than a degree from those of a file count as its place."""
        file = SAMPLE_FOLDER / f"{path.strip('/').replace('?', '/')}.json"
        places = {place.stem: place for place in sorted(file.parent.glob("*.json"))}
        if file.parent.name == "points":
            near = [name for name in places if dist(_coordinates(name), _coordinates(file.stem)) < 1]
        else:
            near = [name for name in places if name == file.stem]
        if not near:
            raise NotFoundError(f"The sample data has nothing at {path}, only: {'; '.join(places)}.")
        return places[near[0]].read_bytes()


def _coordinates(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]


def _degrees(number: float) -> str:
    """Write degrees as the service does: at most four decimals, no zeros at the end, else it redirects."""
    return f"{number:.4f}".rstrip("0").rstrip(".")


class Weather:
    """What the service knows, as models.

    Every method raises `NotFoundError` for a place that the service does not cover, and
    `WeatherError` when it gives no answer or not the one expected.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    async def point(self, latitude: float, longitude: float) -> Point:
        """Find the square of the forecast grid for coordinates in degrees."""
        return await self._get(Point, f"/points/{_degrees(latitude)},{_degrees(longitude)}")

    async def periods(self, point: Point) -> list[Period]:
        """Return the forecast for the next seven days, two periods for each."""
        answer = await self._get(Periods, f"/gridpoints/{point.office}/{point.x},{point.y}/forecast")
        return answer.periods

    async def alerts(self, state: str) -> list[Alert]:
        """Return the alerts in effect in a state, given by its two letters."""
        return (await self._get(Alerts, f"/alerts/active?area={quote(state, safe='')}")).alerts

    async def station(self, station_id: str) -> Station:
        """Return a station by its identifier, such as KDEN."""
        return await self._get(Station, f"/stations/{quote(station_id, safe='')}")

    async def _get(self, model: type[Model], path: str) -> Model:
        answer = await self.source.get(path)
        try:
            return model.model_validate_json(answer)
        except ValidationError as error:
            raise WeatherError(
                f"The answer to {path} cannot be read ({error.error_count()} faults). Try again in a minute."
            ) from error
