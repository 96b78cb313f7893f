"""The weather server as a process, as a host starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from .conftest import EXAMPLE, Answer

DENVER = {"latitude": 39.7392, "longitude": -104.9903}
TIME_OUT = 60.0
AS_MODULE = ["-m", "server"]
AS_FILE = [str(EXAMPLE / "server.py")]


def converse(command, environment, *requests, folder=EXAMPLE):
    """Start the server, ask it everything, end its input, and return the results in order."""
    initialize = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    messages = [
        {"id": 0, "method": "initialize", "params": initialize},
        {"method": "notifications/initialized"},
        *(
            {"id": id_, "method": method, "params": params}
            for id_, (method, params) in enumerate(requests, 1)
        ),
    ]
    finished = subprocess.run(
        [sys.executable, *command],
        input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages),
        env=environment,
        cwd=folder,
        capture_output=True,
        timeout=TIME_OUT,
        encoding="utf-8",
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answers = {
        answer["id"]: answer for answer in map(json.loads, finished.stdout.splitlines()) if "id" in answer
    }
    return [answers[id_]["result"] for id_ in range(1, len(requests) + 1)]


def call(name, arguments):
    return "tools/call", {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("command", "folder"), [(AS_MODULE, EXAMPLE), (AS_FILE, EXAMPLE.parent)], ids=["module", "file"]
)
def test_it_asks_the_service_that_the_environment_names(command, folder, environment, service):
    forecast, alerts = converse(
        command,
        environment,
        call("get_forecast", DENVER),
        call("get_alerts", {"state": "CO"}),
        folder=folder,
    )
    assert forecast["structuredContent"]["source"] == "National Weather Service"
    assert len(forecast["structuredContent"]["periods"]) == 14
    assert len(alerts["structuredContent"]["alerts"]) == 2
    assert sorted(service.paths) == [
        "/alerts/active?area=CO",
        "/gridpoints/BOU/63,61/forecast",
        "/points/39.7392,-104.9903",
    ]


@pytest.mark.parametrize("command", [AS_MODULE, AS_FILE], ids=["module", "file"])
def test_with_sample_it_asks_nobody(command, environment, service):
    (forecast,) = converse([*command, "--sample"], environment, call("get_forecast", DENVER))
    assert "sample data, NOT the real weather" in forecast["content"][0]["text"]
    assert service.paths == []


def test_a_failing_service_is_a_tool_error_that_names_sample(environment, service):
    service.answers["/alerts/active?area=CO"] = Answer(500, b"{}")
    service.answers["/points/39.7392,-104.9903"] = Answer(200, b"not JSON")
    alerts, forecast = converse(
        AS_FILE, environment, call("get_alerts", {"state": "CO"}), call("get_forecast", DENVER)
    )
    assert alerts["isError"]
    assert "answered 500" in alerts["content"][0]["text"]
    assert "--sample" in alerts["content"][0]["text"]
    assert forecast["isError"]
    assert "cannot be read" in forecast["content"][0]["text"]


def test_a_service_that_is_not_there_is_a_tool_error_that_names_sample(environment, service):
    service.shutdown()
    service.server_close()
    (alerts,) = converse(AS_FILE, environment, call("get_alerts", {"state": "CO"}))
    assert alerts["isError"]
    assert "cannot be reached" in alerts["content"][0]["text"]
    assert "--sample" in alerts["content"][0]["text"]


def test_a_wrong_option_ends_it_with_a_hint(environment):
    finished = subprocess.run(
        [sys.executable, *AS_FILE, "--smaple"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIME_OUT,
        encoding="utf-8",
        check=False,
    )
    assert finished.returncode == 2
    assert "--sample" in finished.stderr


def test_a_wrong_url_ends_it_with_what_is_wrong():
    finished = subprocess.run(
        [sys.executable, *AS_FILE],
        env={**os.environ, "WEATHER_API_URL": "api.weather.gov"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIME_OUT,
        encoding="utf-8",
        check=False,
    )
    assert finished.returncode != 0
    assert "must begin with http:// or https://" in finished.stderr
