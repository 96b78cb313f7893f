"""Servers in the manner of published ones: what the page shows of them is what the tool prints, and they run alike."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit.compat.migrate.__main__ import main
from tests.integration.compat.mcp1 import REFERENCE, Calls, normalized

ROOT = Path(__file__).parents[3]
PARTS = re.split(
    r"^=== (.*)\n", Path(__file__).with_name("migrate_snippets.txt").read_text(), flags=re.MULTILINE
)
SNIPPETS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))
SNIPPETS["quick start"] = (ROOT / "examples" / "quickstart" / "weather.py").read_text("utf-8")
PAGE = ROOT / "docs" / "guides" / "migrate-automatically.md"

CALLS: dict[str, Calls] = {
    "archive.py": [("index", {})],
    "gallery.py": [
        ("dot", {}),
        *((name, {"title": "dot"}) for name in ("describe", "show", "sell")),
        ("describe", {"title": "line"}),
    ],
    "kitchen.py": [],
    "ledger.py": [
        *(("book", {"account": "ada", "amount": amount}) for amount in (5, 0)),
        ("convert", {"amount": 1, "currency": "GBP"}),
        ("convert", {"amount": 1.08, "currency": "EUR"}),
    ],
    "search.py": [("search", {"query": "emma"})],
    "shop.py": [
        ("find_product", {"text": "e"}),
        ("find_product", {"text": "e", "limit": "1"}),
        *((name, {"product": "tea"}) for name in ("order", "stock")),
    ],
    "travel.py": [],
    "weather.py": [],
    "quick start": [
        ("get_alerts", {"state": "CA"}),
        ("get_forecast", {"latitude": 38.5, "longitude": "-121.5"}),
    ],
}
"""The calls of servers that run over stdio as they come out. Further tests run the others."""


def migrated(name: str, folder: Path) -> Path:
    file = folder / name
    file.write_text(SNIPPETS[name])
    assert main([str(file), "--write"]) == 0
    return file


def test_page_diffs_equal_output_of_migrate(tmp_path, monkeypatch, capsys) -> None:
    blocks = re.findall(r"```diff\n(--- (\S+)\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 10
    monkeypatch.chdir(tmp_path)
    printed = {}
    for name in SNIPPETS.keys() - {"quick start"}:
        Path(name).write_text(SNIPPETS[name])
        assert main([name]) == 0
        printed[name] = capsys.readouterr().out
        Path(name).unlink()
    assert printed == {name: block for block, name in blocks}


@pytest.mark.skipif(not REFERENCE.exists(), reason="the environment of mcp 1 is not installed")
@pytest.mark.parametrize("name", CALLS)
def test_migrated_server_responses_equal_those_before(name, tmp_path, capsys) -> None:
    (original := tmp_path / "original.py").write_text(SNIPPETS[name])
    after = migrated(name, tmp_path)
    assert name != "quick start" or capsys.readouterr().err == "", "it has no marks"
    env = {"WEATHER_API_URL": "http://127.0.0.1:9"}  # where nothing listens
    servers = ([str(REFERENCE), str(original)], [sys.executable, str(after)])
    expected, actual = (normalized(command, env, tmp_path, CALLS[name]) for command in servers)
    assert actual == expected


def test_migrated_app_is_served_below_its_prefix(tmp_path: Path) -> None:
    file = migrated("site.py", tmp_path)
    client = """
from mcpkit import SyncClient
from starlette.testclient import TestClient
from site_ import app

with SyncClient(app, path="/echo/") as client:
    print(client.call_tool("echo", {"text": "hi"}).text)
print(TestClient(app, base_url="http://localhost").get("/echo/health").json()["status"])
"""
    file.rename(tmp_path / "site_.py")  # Python has a module of the other name
    done = subprocess.run([sys.executable, "-c", client], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["hi", "ok"], done.stderr


def test_migrated_server_with_marks_fails_to_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(migrated("library.py", tmp_path))], capture_output=True, text=True, input=""
    )
    assert "has no attribute 'completion'" in done.stderr
