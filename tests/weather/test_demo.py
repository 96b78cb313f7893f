"""The demo prints what a host sees, and fails when the server does."""

from __future__ import annotations

import re
import subprocess
import sys

from .conftest import EXAMPLE, Answer

TIME_OUT = 90.0


def demo(environment, *options):
    return subprocess.run(
        [sys.executable, str(EXAMPLE / "demo.py"), *options],
        env={**environment, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIME_OUT,
        encoding="utf-8",
        check=False,
    )


def test_it_shows_everything_from_sample_data(environment, service):
    finished = demo(environment)
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert "weather 1.0.0, MCP 2025-11-25" in lines
    for line in [
        r"tool      get_alerts +Weather alerts",
        r"tool      get_forecast +Weather forecast",
        r"tool      plot_temperatures +Temperature plot",
        r"resource  weather://states +US states",
        r"template  weather://stations/\{station_id\} +Weather station",
        r"prompt    plan_trip +Plan a trip",
        r"Forecast for Denver, CO \(source: bundled sample data, NOT the real weather\)",
        r"progress: Looking for .* -> Reading the forecast for Denver, CO -> Done",
        r"Today +96 °F +10 %  SW 5 to 15 mph +Sunny",
        r"plot_temperatures: image/png, [\d,]+ bytes",
        r"Alerts in Colorado: 2 \(source: bundled sample data, NOT the real weather\)",
        r"SEVERE +Red Flag Warning, until 2025-07-15 20:00",
        r"resource +Denver, Denver International Airport",
        r"completion new\.\.\. -> NH, NJ, NM, NY",
        r"prompt +I am going to Denver, Colorado, for 2 days .*",
    ]:
        assert any(re.fullmatch(line, shown) for shown in lines), (line, finished.stdout)
    assert service.paths == []


def test_live_it_asks_the_service(environment, service):
    finished = demo(environment, "--live")
    assert finished.returncode == 0, finished.stderr
    assert "Forecast for Denver, CO (source: National Weather Service)" in finished.stdout
    assert "/alerts/active?area=CO" in service.paths


def test_it_fails_when_the_service_does(environment, service):
    service.answers["/gridpoints/BOU/63,61/forecast"] = Answer(500)
    finished = demo(environment, "--live")
    assert finished.returncode == 1
    assert "FAILED: get_forecast: The National Weather Service" in finished.stderr
    assert "--sample" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_it_fails_when_the_server_does_not_start(environment):
    finished = demo({**environment, "WEATHER_API_URL": "nonsense"}, "--live")
    assert finished.returncode == 1
    assert "FAILED: initialize: the server ended without an answer" in finished.stderr
