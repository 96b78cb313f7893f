"""mcpkit check and mcpkit lock."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit.cli.app import run
from mcpkit.cli.checking.hosts import schema_of
from tests.cli.planted import PLANTED, serving, tool

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command_of(path: Path) -> str:
    return shlex.join([sys.executable, str(path)])


@pytest.mark.parametrize(
    "example", ["weather/server.py", "quickstart/weather_on_mcpkit.py", "notes/server.py"]
)
def test_check_examples_find_nothing(capsys: pytest.CaptureFixture[str], example: str) -> None:
    status = run(["check", str(EXAMPLES / example), "--strict"])
    assert capsys.readouterr().out == "no findings\n"
    assert status == 0


def test_check_process_finds_planted_faults(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = [
        "name-letters",
        "annotations-contradict",
        "default-invalid",
        "map-dropped",
        "description-missing",
    ]
    planted = [{**each.surfaces[0].tools[0], "name": f"tool{number}"} for number, each in enumerate(
        looked for code in codes[1:] for looked in PLANTED[code][:1])]  # fmt: skip
    path = folder / "planted.py"
    path.write_text(serving(tools=[tool("a.b", "First.", outputSchema={"type": "array"}), *planted]))
    assert run(["check", command_of(path), "--json"]) == 6
    found = {each["code"] for each in json.loads(capsys.readouterr().out)["findings"]}
    assert found >= {*codes, "output-not-object"}

    ignored = [part for code in found for part in ("--ignore", code)]
    assert run(["check", command_of(path), *ignored]) == 0
    assert capsys.readouterr().out == "no findings\n"
    assert run(["check", command_of(path), "--ignore", "name-leters"]) == 1
    assert "no such rule: name-leters; did you mean name-letters?" in capsys.readouterr().err
    (folder / "pyproject.toml").write_text(
        f"[tool.mcpkit.check]\nignore = {sorted(found)}\nhosts = ['openai-strict']\n"
    )
    assert run(["check", command_of(path)]) == 6
    assert (
        "OpenAI's strict mode requires each property to be required [strict-mode]" in capsys.readouterr().out
    )


def test_check_and_lock_several_servers_of_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers: dict[str, Any] = {}
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text(serving(tools=[tool("get_it"), tool(f"{name}.x", "Other.")]))
        servers[name] = {"command": sys.executable, "args": [str(folder / f"{name}.py")]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert run(["check", "mcp.json"]) == 6
    told = capsys.readouterr().out
    assert (
        "warning: tool get_it: one and two have it, and some hosts show one [name-of-several-servers]" in told
    )
    assert "warning: one: tool one.x: OpenAI and Anthropic accept" in told
    assert run(["lock", "mcp.json"]) == 0
    assert json.loads((folder / "mcp.lock.json").read_text())["servers"].keys() == {"one", "two"}
    assert run(["lock", "mcp.json"]) == 0


def test_lock_writes_compares_and_updates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "planted.py"
    path.write_text(serving(tools=[tool()]))
    target = command_of(path)
    assert run(["lock", target]) == 0
    assert capsys.readouterr().err == "wrote mcp.lock.json\n"
    first = (folder / "mcp.lock.json").read_bytes()
    assert run(["check", target]) == 0

    path.write_text(serving(tools=[tool(), tool("report", "Say more.")]))
    assert run(["check", target]) == 0
    assert "advice: tool report: it was added [contract-changed]" in capsys.readouterr().out
    assert run(["check", target, "--strict"]) == 6

    city = {**schema_of(schema_of(tool()), "properties")["city"], "maxLength": 3}
    inputs = {"type": "object", "properties": {"city": city}, "additionalProperties": False}
    path.write_text(serving(tools=[tool(inputSchema=inputs)]))
    assert run(["check", target]) == 6
    assert "error: tool forecast: argument city: it must have at most 3 characters" in capsys.readouterr().out
    assert run(["lock", target]) == 6
    told = capsys.readouterr()
    assert "[contract-broken]" in told.out
    assert "mcp.lock.json is unchanged" in told.err
    assert (folder / "mcp.lock.json").read_bytes() == first
    assert run(["lock", target, "--update"]) == 0
    assert (folder / "mcp.lock.json").read_bytes() != first
    assert run(["check", target]) == 0

    assert run(["check", target, "--lock", "other.json"]) == 2
    assert run(["check", target, "--lock", "other.json", "--update"]) == 0
    assert (folder / "other.json").read_bytes() == (folder / "mcp.lock.json").read_bytes()
    (folder / "mcp.lock.json").write_text("{}")
    assert run(["check", target]) == 1
    assert "mcp.lock.json is not a lockfile of mcpkit" in capsys.readouterr().err
