"""The weather server through an in-memory client, in both eras."""

from __future__ import annotations

import asyncio
import base64
import io
import json

import pytest
from PIL import Image

from mcpkit.common.errors import ProtocolError
from mcpkit.testing import connect

from .conftest import Answer

DENVER = {"latitude": 39.7392, "longitude": -104.9903}
LONDON = {"latitude": 51.5, "longitude": -0.12}
SAMPLE = "sample data, NOT the real weather"


@pytest.fixture(params=["2025-06-18", "2026-07-28"])
def ask(example, service, monkeypatch, request):
    """Connect to the server, which asks the local service, and run one method of the client."""
    monkeypatch.setattr(example.server.weather, "source", example.nws.Live(service.url))

    def ask(method, *arguments, **options):
        async def run():
            async with connect(example.server.server, revision=request.param) as client:
                return await getattr(client, method)(*arguments, **options)

        return asyncio.run(run())

    return ask


@pytest.fixture
def sample(example, ask, monkeypatch):
    """The same, with the server on sample data."""
    monkeypatch.setattr(example.server.weather, "source", example.nws.Sample())
    return ask


def test_a_forecast_is_text_for_models_and_data_for_programs(ask):
    result = ask("call", "get_forecast", DENVER)
    first, second, *_ = result.text.splitlines()
    assert first == "Forecast for Denver, CO (source: National Weather Service)"
    assert second.startswith("Today: 96 °F. Sunny, with a high near 96.")
    assert result.structured["place"] == "Denver, CO"
    assert result.structured["periods"][1]["name"] == "Tonight"
    assert result.structured["periods"][1]["temperature"] == 62


def test_a_forecast_reports_its_progress(ask):
    seen = []
    ask("call", "get_forecast", DENVER, progress=lambda *report: seen.append(report))
    assert seen == [
        (0, 2, "Looking for the place on the forecast grid"),
        (1, 2, "Reading the forecast for Denver, CO"),
        (2, 2, "Done"),
    ]


def test_a_place_outside_the_united_states_is_a_tool_error(ask):
    result = ask("call", "get_forecast", LONDON)
    assert result.is_error
    assert "covers the United States" in result.text


@pytest.mark.parametrize("latitude", [91, -90.5, "north", None])
def test_impossible_coordinates_are_refused_before_the_service_is_asked(ask, service, latitude):
    result = ask("call", "get_forecast", {"latitude": latitude, "longitude": 0})
    assert result.is_error
    assert "latitude" in result.text
    assert service.paths == []


def test_alerts_are_text_for_models_and_data_for_programs(ask, service):
    result = ask("call", "get_alerts", {"state": "co"})
    assert result.text.startswith(
        "2 alerts in Colorado (source: National Weather Service)\n\nRed Flag Warning (Severe)"
    )
    assert "Avoid outdoor burning" in result.text
    assert [alert["event"] for alert in result.structured["alerts"]] == [
        "Red Flag Warning",
        "Severe Thunderstorm Watch",
    ]
    assert service.paths == ["/alerts/active?area=CO"]


def test_no_alerts_are_said_to_be_none(ask):
    result = ask("call", "get_alerts", {"state": "WA"})
    assert result.text == "No alerts in Washington (source: National Weather Service)"
    assert result.structured["alerts"] == []


def test_one_alert_is_one(ask):
    assert ask("call", "get_alerts", {"state": "NY"}).text.startswith("1 alert in New York")


def test_an_unknown_state_is_a_tool_error_that_says_what_to_give(ask, service):
    result = ask("call", "get_alerts", {"state": "Colorado"})
    assert result.is_error
    assert "two letters" in result.text
    assert service.paths == []


@pytest.mark.parametrize(
    ("tool", "arguments", "path"),
    [
        ("get_alerts", {"state": "CO"}, "/alerts/active?area=CO"),
        ("get_forecast", DENVER, "/points/39.7392,-104.9903"),
        ("get_forecast", DENVER, "/gridpoints/BOU/63,61/forecast"),
        ("plot_temperatures", DENVER, "/gridpoints/BOU/63,61/forecast"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(500, b"{}"), ["answered 500", "--sample"]),
        (Answer(200, b"{}", is_broken_off=True), ["broke off", "--sample"]),
        (Answer(is_silent=True), ["did not answer", "--sample"]),
        (Answer(200, b"<html>"), ["cannot be read"]),
    ],
)
def test_a_fault_of_the_service_is_a_tool_error(
    ask, example, service, monkeypatch, tool, arguments, path, answer, words
):
    if answer.is_silent:
        monkeypatch.setattr(example.nws, "TIMEOUT", 0.2)
    service.answers[path] = answer
    result = ask("call", tool, arguments)
    assert result.is_error
    assert [word for word in words if word not in result.text] == []


def test_a_plot_is_a_picture_with_a_caption(ask):
    caption, image = ask("call", "plot_temperatures", DENVER).content
    assert caption["text"] == "Temperatures in °F for Denver, CO (source: National Weather Service)"
    assert image["mimeType"] == "image/png"
    assert Image.open(io.BytesIO(base64.b64decode(image["data"]))).format == "PNG"


def test_a_station_is_a_resource(ask):
    (contents,) = ask("read", "weather://stations/KDEN")
    assert contents["mimeType"] == "application/json"
    assert json.loads(contents["text"]) == {
        "source": "National Weather Service",
        "id": "KDEN",
        "name": "Denver, Denver International Airport",
        "latitude": 39.84657,
        "longitude": -104.65623,
        "elevation": 1655.1,
        "time_zone": "America/Denver",
    }


def test_an_unknown_station_is_not_found(ask):
    with pytest.raises(ProtocolError, match="weather://stations/XXXX") as raised:
        ask("read", "weather://stations/XXXX")
    assert raised.value.code in {-32002, -32602}


def test_a_station_that_cannot_be_read_is_an_error_that_names_the_way_out(ask, service):
    service.answers["/stations/KDEN"] = Answer(503)
    with pytest.raises(ProtocolError, match=r"answered 503.*--sample"):
        ask("read", "weather://stations/KDEN")


def test_the_states_are_a_resource(ask):
    (contents,) = ask("read", "weather://states")
    states = json.loads(contents["text"])
    assert states["CO"] == "Colorado"
    assert len(states) == 56


def test_a_trip_is_a_prompt(ask):
    (message,) = ask("get_prompt", "plan_trip", {"city": "Denver", "state": "co", "days": "2"})
    assert message["role"] == "user"
    assert "Denver, Colorado, for 2 days" in message["content"]["text"]
    assert "alerts for CO" in message["content"]["text"]


def test_a_trip_lasts_three_days_unless_told(ask):
    (message,) = ask("get_prompt", "plan_trip", {"city": "Miami", "state": "FL"})
    assert "for 3 days" in message["content"]["text"]


@pytest.mark.parametrize(
    ("reference", "argument", "typed", "values"),
    [
        ("plan_trip", "state", "new", ["NH", "NJ", "NM", "NY"]),
        ("plan_trip", "state", "c", ["CA", "CO", "CT"]),
        ("plan_trip", "state", "xx", []),
        ("weather://stations/{station_id}", "station_id", "kd", ["KDCA", "KDEN", "KDFW", "KDTW"]),
        ("weather://stations/{station_id}", "station_id", "San", ["KSAN", "KSFO"]),
    ],
)
def test_codes_are_completed_by_what_they_begin_with_or_their_names(ask, reference, argument, typed, values):
    assert ask("complete", reference, argument, typed) == values


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("call", ("get_forecast", DENVER)),
        ("call", ("get_alerts", {"state": "CO"})),
        ("call", ("get_alerts", {"state": "WA"})),
        ("call", ("plot_temperatures", DENVER)),
        ("call", ("get_forecast", LONDON)),
        ("read", ("weather://stations/KDEN",)),
    ],
)
def test_sample_data_says_so_in_each_answer(sample, service, method, arguments):
    answer = sample(method, *arguments)
    text = answer.text if method == "call" else answer[0]["text"]
    assert SAMPLE in text or "The sample data" in text
    assert service.paths == []


def test_sample_data_says_so_in_structured_content_too(sample):
    assert SAMPLE in sample("call", "get_forecast", DENVER).structured["source"]
    assert SAMPLE in sample("call", "get_alerts", {"state": "CO"}).structured["source"]


def test_every_tool_and_argument_is_described(ask):
    tools = {tool["name"]: tool for tool in ask("list_tools")}
    assert list(tools) == ["get_alerts", "get_forecast", "plot_temperatures"]
    for tool in tools.values():
        assert tool["description"]
        assert tool["annotations"] == {"readOnlyHint": True, "openWorldHint": True}
        for argument in tool["inputSchema"]["properties"].values():
            assert argument["description"]
    assert list(tools["get_forecast"]["inputSchema"]["properties"]) == ["latitude", "longitude"]
    assert "periods" in tools["get_forecast"]["outputSchema"]["properties"]
    assert "outputSchema" not in tools["plot_temperatures"]
