"""Servers in the manner of published ones: what the page shows of them is what the tool prints, and they run alike."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpkit.compat.migrate.command import main
from tests.integration.compat.migrate_judge import differences, seen

ROOT = Path(__file__).parents[3]
PARTS = re.split(
    r"^=== (.*)\n", Path(__file__).with_name("migrate_snippets.txt").read_text(), flags=re.MULTILINE
)
SNIPPETS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))
NAMES = sorted(SNIPPETS)
PAGE = ROOT / "docs" / "how-to" / "migrate.md"
QUICK_START = ROOT / "examples" / "quickstart" / "weather.py"
MCP1 = ROOT / ".servers" / "mcp1" / "bin" / "python"

CALLS: dict[str, list[tuple[str, Mapping[str, Any]]]] = {
    "archive.py": [("index", {})],
    "gallery.py": [
        ("dot", {}),
        ("describe", {"title": "dot"}),
        ("describe", {"title": "line"}),
        ("show", {"title": "dot"}),
        ("sell", {"title": "dot"}),
    ],
    "kitchen.py": [],
    "ledger.py": [
        ("book", {"account": "ada", "amount": 5}),
        ("book", {"account": "ada", "amount": 0}),
        ("convert", {"amount": 1, "currency": "GBP"}),
        ("convert", {"amount": 1.08, "currency": "EUR"}),
    ],
    "search.py": [("search", {"query": "emma"})],
    "shop.py": [
        ("find_product", {"text": "e"}),
        ("find_product", {"text": "e", "limit": "1"}),
        ("order", {"product": "tea"}),
        ("stock", {"product": "tea"}),
    ],
    "travel.py": [],
    "weather.py": [],
}
"""What is called of those that run by stdio as they come out. The others are run by tests of their own."""


def migrated(name: str, folder: Path) -> Path:
    file = folder / name
    file.write_text(SNIPPETS[name])
    assert main([str(file), "--write"]) == 0
    return file


def shown() -> dict[str, str]:
    """Return the diffs of the page, by the names of their files."""
    blocks = re.findall(r"```diff\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return {re.match(r"--- (\S+)\n", block)[1]: block for block in blocks}  # type: ignore[index]


def test_page_diffs_equal_output_of_migrate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = {}
    for name, source in SNIPPETS.items():
        (tmp_path / name).write_text(source)
        assert main([name]) == 0
        printed[name] = capsys.readouterr().out
        (tmp_path / name).unlink()
    assert len(NAMES) == 10
    assert printed == shown()


@pytest.mark.skipif(not MCP1.exists(), reason="the environment of mcp 1 is not installed")
@pytest.mark.parametrize("name", CALLS)
def test_migrated_server_responses_equal_those_before(name: str, tmp_path: Path) -> None:
    (original := tmp_path / f"original_{name}").write_text(SNIPPETS[name])
    before = seen([str(MCP1), str(original)], {}, tmp_path, CALLS[name])
    after = seen([sys.executable, str(migrated(name, tmp_path))], {}, tmp_path, CALLS[name])
    assert differences(before, after) == []


@pytest.mark.skipif(not MCP1.exists(), reason="the environment of mcp 1 is not installed")
def test_migrated_quick_start_has_no_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "weather.py"
    file.write_bytes(QUICK_START.read_bytes())
    assert main([str(file), "--write"]) == 0
    assert capsys.readouterr().err == ""
    calls = [("get_alerts", {"state": "CA"}), ("get_forecast", {"latitude": 38.5, "longitude": "-121.5"})]
    env = {"WEATHER_API_URL": "http://127.0.0.1:9"}  # where nobody answers
    before = seen([str(MCP1), str(QUICK_START)], env, tmp_path, calls)
    after = seen([sys.executable, str(file)], env, tmp_path, calls)
    assert differences(before, after) == []


def test_migrated_app_is_served_below_its_prefix(tmp_path: Path) -> None:
    file = migrated("site.py", tmp_path)
    asks = """
import sys
from starlette.testclient import TestClient
from site_ import app

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
           "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hi"}, "_meta": META}}
http = TestClient(app, base_url="http://localhost")
print(http.post("/echo/", json=CALL, headers=HEADERS).json()["result"]["content"][0]["text"])
print(http.get("/echo/health").json()["status"])
"""
    file.rename(tmp_path / "site_.py")  # Python has a module of the other name
    done = subprocess.run([sys.executable, "-c", asks], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["hi", "ok"], done.stderr


def test_migrated_server_with_marks_fails_to_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(migrated("library.py", tmp_path))], capture_output=True, text=True, input=""
    )
    assert "has no attribute 'completion'" in done.stderr
