"""The weather example in memory, with a service that answers and one that fails."""

import asyncio
import json

import pytest

from mcpkit._utils.exceptions import ProtocolError
from mcpkit.testing import connect

from .conftest import Answer

DENVER = {"latitude": 39.7392, "longitude": -104.9903}


@pytest.fixture
def ask(example, service, monkeypatch):
    """Connect to the server, which asks the local service, and run one method of the client."""
    monkeypatch.setattr(example.server.weather, "source", example.nws.Live(service.url))

    def ask(method, *arguments, **options):
        async def run():
            async with connect(example.server.server, protocol_version="2026-07-28") as client:
                return await getattr(client, method)(*arguments, **options)

        return asyncio.run(run())

    return ask


def test_forecast_has_text_and_structured_content(ask):
    result = ask("call_tool", "get_forecast", DENVER)
    first, second, *_ = result.text.splitlines()
    assert first == "Forecast for Denver, CO (source: National Weather Service)"
    assert second.startswith("Today: 96 °F. Sunny, with a high near 96.")
    assert result.structured_content["place"] == "Denver, CO"
    assert result.structured_content["periods"][1]["name"] == "Tonight"
    assert result.structured_content["periods"][1]["temperature"] == 62


def test_fault_of_the_service_is_a_tool_error(ask, service):
    for tool, arguments, path in (
        ("get_alerts", {"state": "CO"}, "/alerts/active?area=CO"),
        ("get_forecast", DENVER, "/points/39.7392,-104.9903"),
        ("plot_temperatures", DENVER, "/gridpoints/BOU/63,61/forecast"),
    ):
        for answer, words in ((Answer(500, b"{}"), "--sample"), (Answer(200, b"<html>"), "cannot be read")):
            service.answers = {path: answer}
            result = ask("call_tool", tool, arguments)
            assert (result.is_error, words in result.text) == (True, True), (tool, result.text)
    service.answers = {"/stations/KDEN": Answer(503)}
    with pytest.raises(ProtocolError, match=r"answered 503.*--sample"):
        ask("read_resource", "weather://stations/KDEN")


def test_station_is_a_resource(ask):
    (contents,) = ask("read_resource", "weather://stations/KDEN")
    assert contents["mimeType"] == "application/json"
    station = json.loads(contents["text"])
    assert (station["name"], station["elevation"]) == ("Denver, Denver International Airport", 1655.1)


FAULTS = {
    "error": (Answer(503, b'{"title": "Unexpected Problem"}'), "answered 503"),
    "cut": (Answer(200, b'{"properties": {', is_cut=True), "broke off its answer"),
    "silent": (Answer(is_silent=True), "did not answer within 0.2 seconds"),
    "redirect to itself": (Answer(301, headers={"Location": "/stations/KDEN"}), "answered 301"),
    **{
        repr(body): (Answer(200, body), "The answer to /stations/KDEN cannot be read")
        for body in (
            *(b"", b"<html>Sorry</html>", b'{"properties": {', b"\xff\xfe", b"null", b"[]", b"{}"),
            b'{"properties": {"stationIdentifier": 7}, "geometry": {"coordinates": [1]}}',
        )
    },
}


def test_weather_service_faults_raise_with_the_cause(example, service, monkeypatch):
    weather, usual = example.nws.Weather(example.nws.Live(service.url)), example.nws.TIMEOUT
    for name, (answer, words) in FAULTS.items():
        monkeypatch.setattr(example.nws, "TIMEOUT", 0.2 if answer.is_silent else usual)
        service.answers["/stations/KDEN"] = answer
        with pytest.raises(example.nws.WeatherError) as raised:
            asyncio.run(weather.station("KDEN"))
        text = str(raised.value)
        assert words in text, (name, text)
        assert "--sample" in text or "cannot be read" in text, (name, text)
    for url in ("api.weather.gov", "file:///etc/passwd", ""):
        with pytest.raises(ValueError, match="must begin with http"):
            example.nws.Live(url)
