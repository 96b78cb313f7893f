"""The commands of the weather example: the server over stdio and HTTP, the demo, and what its README shows."""

import difflib
import json
import re
import shlex
import subprocess
import sys

import pytest

from mcpkit import Client
from tests.helpers.serving import ROOT, serving

from .conftest import EXAMPLE, Answer, Example, Service

DENVER = {"latitude": 39.7392, "longitude": -104.9903}
TIMEOUT = 90.0
SERVER = [sys.executable, str(EXAMPLE / "server.py")]
Environment = dict[str, str]


def run(command: list[str], environment: Environment, input: str = "") -> subprocess.CompletedProcess[str]:
    env = {**environment, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, env=env, input=input, capture_output=True, timeout=TIMEOUT, encoding="utf-8", check=False
    )


@pytest.mark.parametrize("command", [SERVER, [sys.executable, "-m", "server"]], ids=["file", "module"])
async def test_weather_server_over_stdio_uses_service_of_environment(
    command: list[str], environment: Environment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLE)
    async with Client(command, env=environment) as client:
        forecast = await client.call_tool("get_forecast", DENVER)
        assert forecast.structured_content["source"] == "National Weather Service"
        assert len(forecast.structured_content["periods"]) == 14
        service.answers["/alerts/active?area=CO"] = Answer(500, b"{}")
        alerts = await client.call_tool("get_alerts", {"state": "CO"})
        assert alerts.is_error
        assert "answered 500" in alerts.text
        assert "--sample" in alerts.text


def test_weather_server_with_wrong_option_or_url_exits_with_message(environment: Environment) -> None:
    finished = run([*SERVER, "--smaple"], environment)
    assert (finished.returncode, "--sample" in finished.stderr) == (2, True)
    finished = run(SERVER, {**environment, "WEATHER_API_URL": "api.weather.gov"})
    assert finished.returncode != 0
    assert "must begin with http:// or https://" in finished.stderr


async def test_weather_server_over_http_answers_at_mcp_and_sse() -> None:
    with serving([*SERVER, "--sample", "--http", "0"]) as served:
        for path in ("mcp", "sse"):
            async with Client(f"{served.origin}/{path}") as client:
                alerts = await client.call_tool("get_alerts", {"state": "CO"})
                assert alerts.structured_content["state"] == "Colorado"


def test_weather_demo_shows_everything_from_sample_data(environment: Environment, service: Service) -> None:
    finished = run([sys.executable, str(EXAMPLE / "demo.py")], environment)
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


def test_weather_readme_commands_start_the_server(environment: Environment, example: Example) -> None:
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    commands = []
    for language, text in re.findall(r"```(\w+)\n(.*?)```", readme, re.DOTALL):
        if language == "json":
            (servers,) = json.loads(text).values()
            commands.append([servers["weather"]["command"], *servers["weather"]["args"]])
        else:
            commands.append(shlex.split(text.partition(" -- ")[2]))
    assert len(commands) == 2
    for command in commands:
        assert command == ["/path/to/.venv/bin/python", "/path/to/examples/weather/server.py", *command[2:]]
        finished = run([*SERVER, *command[2:]], environment, '{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert json.loads(finished.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}, command
    assert [file.name for file in EXAMPLE.glob("*.py") if f"| `{file.name}` |" not in readme] == []
    offered = [component.key for part in example.server.server.catalog.parts for component in part]
    assert len(offered) == 6
    assert [key for key in offered if f"`{key}" not in readme] == []


QUICKSTART = ROOT / "examples" / "quickstart"


def test_quickstart_on_mcpkit_changes_one_line() -> None:
    before, after = (
        (QUICKSTART / name).read_text().splitlines() for name in ("weather.py", "weather_on_mcpkit.py")
    )
    assert [line for line in difflib.ndiff(before, after) if line[0] in "+-"] == [
        "- from mcp.server.fastmcp import FastMCP",
        "+ from mcpkit.compat.mcp_fastmcp import FastMCP",
    ]
