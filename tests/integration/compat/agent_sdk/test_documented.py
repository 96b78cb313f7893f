"""What is written for agent SDKs, with the import changed: the agent sees the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpkit import Client
from tests.helpers.agent_sdks import AGENTS, Environment

DOCUMENTED = Path(__file__).parent / "documented.py"


@pytest.mark.parametrize("environment", AGENTS, ids=str)
def test_sdk_tools_and_calls_equal_those_of_the_sdk(environment: Environment) -> None:
    outcomes = environment.outcomes(DOCUMENTED)
    theirs, ours = outcomes["theirs"], outcomes["ours"]
    for one, other in zip(theirs["calls"], ours["calls"], strict=True):
        assert one == other
    assert theirs == ours


@pytest.mark.anyio
async def test_sdk_tools_and_calls_over_stdio_equal_those_of_the_sdk() -> None:
    expected = Environment("claude", 2).outcomes(DOCUMENTED)["ours"]
    root = str(Path(__file__).parents[4])
    command = {"command": sys.executable, "args": [str(DOCUMENTED), "stdio"], "env": {"PYTHONPATH": root}}
    async with Client(command, protocol_version="2025-11-25") as client:
        assert {each["name"]: each for each in await client.list_tools()} == expected["tools"]
        for (name, arguments), said in expected["calls"]:
            result = await client.call_tool(name, arguments)
            assert (result.is_error, result.content) == (said["isError"], said["content"])
