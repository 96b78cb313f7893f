"""The fixture for pytest, as the tests of an author's project use it."""

import os
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
    client = mcp_client(server, protocol_version="2025-06-18")
    assert client.protocol_version == "2025-06-18"
    assert client.call_tool("bake", {"bread": "rye"}).text == "rye bread"


def test_that_of_the_settings(mcp_client):
    assert mcp_client().call_tool("bake", {"bread": "rye"}).text == "rye bread"


def test_two(mcp_client):
    first, second = mcp_client(server), mcp_client()
    assert first.list_tools() == second.list_tools()


def test_what_cannot_be_connected_to(mcp_client):
    with pytest.raises(FileNotFoundError):
        mcp_client("missing.py")
"""


def run(folder: Path, *arguments: str) -> str:
    """Run pytest in an author's project."""
    plugins = ["-p", "no:cacheprovider", "-p", "anyio", "-p", "mcpkit.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-W", "error", *arguments]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    ).stdout


CONTRACT_TESTS = """
import server


def test_contract(mcp_lock):
    mcp_lock(server.server)


def test_what_breaks(mcp_lock):
    mcp_lock(server.server, compatible=True)


def test_stumbling(mcp_check):
    mcp_check(server.server, ignore=["argument-undescribed"])
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    target = f'"{Path(sys.executable).as_posix()}" server.py'
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmcp_target = {target}\npythonpath = .\n")
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "test_server.py").write_text(CONTRACT_TESTS)
    return tmp_path


def test_mcp_client_fixture_connects(project: Path) -> None:
    (project / "test_server.py").write_text(TESTS)
    assert "4 passed" in run(project)


def test_pytest_finds_it() -> None:
    [found] = [each for each in entry_points(group="pytest11") if each.name == "mcpkit"]
    assert found.value == "mcpkit.testing.pytest_plugin"


def test_contract_is_written_on_update_and_compared_afterwards(project: Path) -> None:
    output = run(project)
    assert "Run pytest --mcp-lock-update to write it" in output
    assert "2 failed, 1 passed" in output
    assert "3 passed" in run(project, "--mcp-lock-update")
    assert '"name": "bake"' in (project / "mcp.lock.json").read_text()
    (project / "server.py").write_text(SERVER.replace("bread: str", "bread: int"))
    output = run(project)
    assert "breaks clients: tool bake: argument bread: a string is not allowed, only an integer" in output
    assert "2 failed, 1 passed" in output


def test_mcp_check_uses_the_settings_of_the_project(project: Path) -> None:
    (project / "server.py").write_text(SERVER.replace("Bake bread.", ""))
    warning = "tool bake: it has no description, so models do not know when to use it"
    assert f"warning description-missing: {warning}" in run(project, "-k", "stumbling")
    (project / "pyproject.toml").write_text("[tool.mcpkit.check]\nstrict = 5\n")
    assert "strict in [tool.mcpkit.check] must be of type bool, got 5" in run(project, "-k", "stumbling")
