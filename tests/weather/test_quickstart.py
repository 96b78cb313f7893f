"""The quick start is the same server under mcp 1.x, under `python -m mcpkit.compat` and with one line changed."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest

from mcpkit import Client

pytest.importorskip("httpx")
pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart"
MCP1 = ROOT / ".servers" / "mcp1" / "bin" / "python"

ON_MCPKIT = [sys.executable, str(QUICKSTART / "weather_on_mcpkit.py")]
COMPAT = [sys.executable, "-m", "mcpkit.compat", str(QUICKSTART / "weather.py")]
OFFICIAL = [str(MCP1), str(QUICKSTART / "weather.py")]


async def told_by(command: list[str], environment: dict[str, str]) -> list[object]:
    """What the server lists and answers."""
    environment = {**environment, "PYTHONPATH": str(ROOT) if command[0] == sys.executable else ""}
    async with Client(command, env=environment, revision="2025-11-25") as client:
        return [
            client.server_info["name"],
            client.server_capabilities,
            await client.request("tools/list", {}),
            await client.request("tools/call", {"name": "get_alerts", "arguments": {"state": "FL"}}),
            await client.request("tools/call", {"name": "get_alerts", "arguments": {"state": "XX"}}),
            await client.request(
                "tools/call",
                {"name": "get_forecast", "arguments": {"latitude": "39.7392", "longitude": -104.9903}},
            ),
            await client.request(
                "tools/call", {"name": "get_forecast", "arguments": {"latitude": 0, "longitude": 0}}
            ),
            await client.request("tools/call", {"name": "get_forecast", "arguments": {"latitude": "north"}}),
        ]


async def test_it_is_the_same_server_unchanged_and_with_its_import_changed(environment):
    unchanged = await told_by(COMPAT, environment)
    assert await told_by(ON_MCPKIT, environment) == unchanged
    texts = [answer["content"][0]["text"] for answer in unchanged[3:]]
    assert texts[0].startswith("Event: ")
    assert texts[1] == "The weather service does not answer."
    assert "Temperature: " in texts[2]
    assert texts[3] == "The weather service knows no forecast for this place."
    assert texts[4].startswith(
        "Error executing tool get_forecast: 2 validation errors for get_forecastArguments"
    )


async def test_it_is_the_same_server_as_under_mcp_1(environment):
    if not MCP1.exists():
        pytest.skip("mcp 1.x is not installed here: `make setup` puts it into .servers")
    assert await told_by(COMPAT, environment) == await told_by(OFFICIAL, environment)


def test_one_line_is_changed():
    before, after = (
        (QUICKSTART / name).read_text().splitlines() for name in ("weather.py", "weather_on_mcpkit.py")
    )
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert changed == [
        "- from mcp.server.fastmcp import FastMCP",
        "+ from mcpkit.compat.fastmcp import FastMCP",
    ]
