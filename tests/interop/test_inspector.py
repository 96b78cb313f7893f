"""The command line of the official inspector, 0.x and 2.x, as a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.journey import COMMAND, TOOLS, TRANSPORTS, text_of

MODULES = Path(__file__).parents[2] / "node_modules"
INSPECTOR_0 = [MODULES / "inspector-0" / "cli" / "build" / "cli.js", "--cli"]
INSPECTOR_2 = [MODULES / "inspector-2" / "clients" / "launcher" / "build" / "index.js", "--cli"]
ERAS = {
    "0": INSPECTOR_0,
    "2-legacy": [*INSPECTOR_2, "--protocol-era", "legacy"],
    "2-auto": [*INSPECTOR_2, "--protocol-era", "auto"],
    "2-modern": [*INSPECTOR_2, "--protocol-era", "modern"],
}
WAYS = [
    (era, transport)
    for transport in TRANSPORTS
    for era in ERAS
    if transport != "sse" or era in ("0", "2-legacy")
]


@pytest.fixture(params=WAYS, ids=map("-".join, WAYS))
def inspect(request, run_node, reach):
    """Ask the inspector for one method; give its JSON output."""
    era, transport = request.param
    _, *target = reach(transport)

    def inspect(*options: str) -> dict[str, Any]:
        finished = run_node(*ERAS[era], *target, *options)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    return inspect


def test_lists_tools(inspect):
    assert [tool["name"] for tool in inspect("--method", "tools/list")["tools"]] == TOOLS


def test_calls_a_tool(inspect):
    result = inspect("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3")
    assert result["structuredContent"] == {"total": 5, "terms": [2, 3]}


def test_lists_resources_and_templates(inspect):
    assert [each["uri"] for each in inspect("--method", "resources/list")["resources"]] == [
        "interop://greeting"
    ]
    [template] = inspect("--method", "resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "interop://greetings/{language}"


def test_reads_a_resource(inspect):
    [content] = inspect("--method", "resources/read", "--uri", "interop://greetings/dutch")["contents"]
    assert content["text"] == "Hallo"


def test_lists_and_gets_prompts(inspect):
    assert [each["name"] for each in inspect("--method", "prompts/list")["prompts"]] == ["welcome"]
    result = inspect("--method", "prompts/get", "--prompt-name", "welcome", "--prompt-args", "name=Ada")
    assert result["messages"][0]["content"]["text"] == "Write a formal welcome for Ada."


def test_tool_error(run_node):
    """The 2.x command line ends with a status of its own when a tool fails."""
    finished = run_node(
        *INSPECTOR_2, *COMMAND, "--method", "tools/call", "--tool-name", "divide", "--tool-arg", "a=1", "b=0"
    )
    assert finished.returncode == 5, finished.stderr
    assert text_of(json.loads(finished.stdout)) == "b must not be 0"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_strict_finds_nothing_to_complain_about(run_node, era):
    options = ["--protocol-era", era, "--format", "json", "--method", "tools/list", "--strict"]
    finished = run_node(*INSPECTOR_2, *COMMAND, *options)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout).get("schemaFindings", []) == []
