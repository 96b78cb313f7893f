"""The fixture for pytest, as the tests of an author's project use it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SERVER = '''
from mcpkit import Server

server = Server("bakery")


@server.tool
def bake(bread: str) -> str:
    """Bake bread."""
    return f"{bread} bread"


if __name__ == "__main__":
    server.run()
'''

TESTS = """
import sys

import pytest

from server import server


def test_a_server(mcp_client):
    client = mcp_client(server, revision="2025-06-18")
    assert client.revision == "2025-06-18"
    assert client.call("bake", {"bread": "rye"}).text == "rye bread"


def test_that_of_the_settings(mcp_client):
    assert mcp_client().call("bake", {"bread": "rye"}).text == "rye bread"


def test_two(mcp_client):
    first, second = mcp_client(server), mcp_client()
    assert first.list_tools() == second.list_tools()


def test_what_cannot_be_connected_to(mcp_client):
    with pytest.raises(FileNotFoundError):
        mcp_client("missing.py")
"""

WITHOUT = """
import sys


def test_nothing_is_imported_until_it_is_used():
    assert "mcpkit.client" not in sys.modules
    assert "mcpkit.server" not in sys.modules
    assert "pydantic" not in sys.modules


def test_it_needs_a_server(mcp_client):
    mcp_client()
"""


def run(folder: Path, *arguments: str) -> str:
    """Run pytest in an author's project."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    ).stdout


def test_it_connects_clients(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "test_server.py").write_text(TESTS)
    for target in ("server.py", f'"{Path(sys.executable).as_posix()}" server.py'):
        (tmp_path / "pytest.ini").write_text(f"[pytest]\nmcp_target = {target}\npythonpath = .\n")
        assert "4 passed" in run(tmp_path)


def test_it_costs_nothing_until_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_without.py").write_text(WITHOUT)
    told = run(tmp_path)
    assert "mcp_client() needs a server, or the setting mcp_target" in told
    assert "1 failed, 1 passed" in told or "1 passed, 1 error" in told


def test_pytest_finds_it() -> None:
    [found] = [each for each in entry_points(group="pytest11") if each.name == "mcpkit"]
    assert found.value == "mcpkit.testing.pytest_plugin"
