"""The client of the weather service, with a service that answers and one that fails."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from .conftest import EXAMPLE, Answer

DENVER = "/points/39.7392,-104.9903"
FORECAST = "/gridpoints/BOU/63,61/forecast"


@pytest.fixture
def weather(example, service):
    return example.nws.Weather(example.nws.Live(service.url))


@pytest.fixture
def sample(example):
    return example.nws.Weather(example.nws.Sample())


def failure(example, request):
    with pytest.raises(example.nws.WeatherError) as raised:
        asyncio.run(request)
    return str(raised.value)


def test_a_forecast_takes_two_requests(weather, service):
    async def forecast():
        return await weather.periods(await weather.point(39.7392, -104.9903))

    periods = asyncio.run(forecast())
    assert service.paths == [DENVER, FORECAST]
    assert [period.name for period in periods[:3]] == ["Today", "Tonight", "Wednesday"]
    assert (periods[0].temperature, periods[0].rain_chance, periods[0].wind_from) == (96, 10, "SW")
    assert len(periods) == 14


def test_a_null_chance_of_rain_is_none(weather):
    async def forecast():
        return await weather.periods(await weather.point(39.7392, -104.9903))

    assert asyncio.run(forecast())[-1].rain_chance is None


def test_requests_say_who_asks_and_for_which_format(weather, service):
    asyncio.run(weather.station("KDEN"))
    headers = service.requests[0][1]
    assert headers["User-Agent"].startswith("mcpkit-weather-example/")
    assert headers["Accept"] == "application/geo+json"


def test_coordinates_are_asked_for_in_the_form_that_is_not_redirected(weather, service):
    service.answers["/points/39.7392,-105"] = service.answer(DENVER)
    asyncio.run(weather.point(39.73921234, -105.00000001))
    assert service.paths == ["/points/39.7392,-105"]


def test_a_redirect_is_followed(weather, service):
    service.answers["/stations/KXXX"] = Answer(301, headers={"Location": "/stations/KDEN"})
    assert asyncio.run(weather.station("KXXX")).id == "KDEN"


def test_a_redirect_in_a_circle_is_a_failure(example, weather, service):
    service.answers["/stations/KDEN"] = Answer(301, headers={"Location": "/stations/KDEN"})
    assert "answered 301" in failure(example, weather.station("KDEN"))


def test_no_alerts_is_an_empty_list(weather):
    assert asyncio.run(weather.alerts("WA")) == []


def test_alerts_may_lack_headline_and_instruction(weather):
    (alert,) = asyncio.run(weather.alerts("NY"))
    assert alert.event == "Air Quality Alert"
    assert alert.headline is None
    assert alert.instruction is None


def test_a_point_outside_the_united_states_is_not_found(example, weather):
    with pytest.raises(example.nws.NotFoundError, match=r"/points/51\.5,-0\.12.*United States"):
        asyncio.run(weather.point(51.5, -0.12))


def test_text_from_outside_stays_one_segment_of_the_path(example, weather, service):
    with pytest.raises(example.nws.NotFoundError):
        asyncio.run(weather.station("../alerts/active?area=CO#"))
    assert service.requests[0][0] == "/stations/../alerts/active?area=CO#"  # unquoted by the test's service


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_an_error_of_the_service_is_told_and_names_the_way_out(example, weather, service, status):
    service.answers["/stations/KDEN"] = Answer(status, b'{"title": "Unexpected Problem"}')
    text = failure(example, weather.station("KDEN"))
    assert f"answered {status}" in text
    assert "--sample" in text


def test_a_service_that_is_not_there_is_told_and_names_the_way_out(example):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        text = failure(example, example.nws.Weather(example.nws.Live(url)).station("KDEN"))
    assert f"{url} cannot be reached" in text
    assert "--sample" in text


def test_a_silent_service_is_given_up(example, weather, service, monkeypatch):
    monkeypatch.setattr(example.nws, "TIMEOUT", 0.2)
    service.answers["/stations/KDEN"] = Answer(is_silent=True)
    text = failure(example, weather.station("KDEN"))
    assert "did not answer within 0.2 seconds" in text
    assert "--sample" in text


def test_an_answer_that_breaks_off_is_told(example, weather, service):
    service.answers["/stations/KDEN"] = Answer(200, b'{"properties": {', is_broken_off=True)
    text = failure(example, weather.station("KDEN"))
    assert "broke off its answer" in text
    assert "--sample" in text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Sorry</html>",
        b'{"properties": {',
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"properties": {"stationIdentifier": 7}, "geometry": {"coordinates": [1]}}',
    ],
)
def test_an_answer_that_is_not_in_the_format_is_told(example, weather, service, body):
    service.answers["/stations/KDEN"] = Answer(200, body)
    text = failure(example, weather.station("KDEN"))
    assert "The answer to /stations/KDEN cannot be read" in text


def test_a_forecast_without_periods_is_told(example, weather, service):
    service.answers[FORECAST] = Answer(200, b'{"properties": {"periods": []}}')

    async def forecast():
        return await weather.periods(await weather.point(39.7392, -104.9903))

    assert "cannot be read" in failure(example, forecast())


@pytest.mark.parametrize("url", ["api.weather.gov", "file:///etc/passwd", ""])
def test_a_url_that_is_not_of_http_is_refused(example, url):
    with pytest.raises(ValueError, match="must begin with http"):
        example.nws.Live(url)


def test_a_url_may_end_in_a_slash(example, service):
    weather = example.nws.Weather(example.nws.Live(service.url + "/"))
    assert asyncio.run(weather.station("KDEN")).id == "KDEN"
    assert service.paths == ["/stations/KDEN"]


def test_every_place_of_the_sample_data_has_its_forecast_alerts_and_station(sample):
    async def read():
        for file in (EXAMPLE / "sample" / "points").glob("*.json"):
            latitude, longitude = map(float, file.stem.split(","))
            point = await sample.point(latitude, longitude)
            yield (
                point.city,
                len(await sample.periods(point)),
                [a.event for a in await sample.alerts(point.state)],
            )

    async def collect():
        return sorted([place async for place in read()])

    assert asyncio.run(collect()) == [
        ("Denver", 14, ["Red Flag Warning", "Severe Thunderstorm Watch"]),
        ("Miami", 14, ["Rip Current Statement", "Heat Advisory"]),
        ("New York", 14, ["Air Quality Alert"]),
        ("Seattle", 14, []),
    ]


def test_the_sample_data_answers_for_the_surroundings_of_its_places(sample):
    assert asyncio.run(sample.point(39.5, -105.2)).city == "Denver"


@pytest.mark.parametrize(
    ("method", "arguments", "known"),
    [
        ("point", (51.5, -0.12), "39.7392,-104.9903"),
        ("alerts", ("TX",), "area=CO"),
        ("station", ("KORD",), "KDEN"),
        ("station", ("../points/x",), "KDEN"),
    ],
)
def test_what_the_sample_data_lacks_is_told_with_what_it_has(example, sample, method, arguments, known):
    with pytest.raises(example.nws.NotFoundError) as raised:
        asyncio.run(getattr(sample, method)(*arguments))
    assert known in str(raised.value)


def test_the_sample_data_is_geojson_of_the_service():
    files = list((EXAMPLE / "sample").rglob("*.json"))
    kinds = {json.loads(file.read_bytes())["type"] for file in files}
    assert len(files) == 16
    assert kinds == {"Feature", "FeatureCollection"}
