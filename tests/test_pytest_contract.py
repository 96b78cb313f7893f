"""The fixtures that hold a server to its contract and to what hosts take, as the tests of an author use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_pytest_plugin import SERVER, run

pytestmark = pytest.mark.slow

TESTS = """
import pytest
import server


def test_contract(mcp_lock):
    mcp_lock(server.server)


def test_what_breaks(mcp_lock):
    mcp_lock(server.server, compatible=True)


@pytest.mark.anyio
async def test_in_a_loop(mcp_lock):
    mcp_lock(server.server, "folder/other.json")


def test_stumbling(mcp_check):
    mcp_check(server.server, ignore=["argument-undescribed"])


@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
OPTIONAL = SERVER.replace("bread: str", "bread: str, seeds: bool = False")
BROKEN = SERVER.replace("bread: str", "bread: int")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = anyio\n")
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "test_server.py").write_text(TESTS)
    return tmp_path


def test_a_contract_is_written_when_it_is_asked_for_and_compared_from_then_on(project: Path) -> None:
    told = run(project)
    assert "pytest --mcp-lock-update writes it" in told
    assert "3 failed, 1 passed" in told
    assert "4 passed" in run(project, "--mcp-lock-update")
    assert '"name": "bake"' in (project / "mcp.lock.json").read_text()
    assert "4 passed" in run(project)

    (project / "server.py").write_text(OPTIONAL)
    told = run(project)
    assert "changed: tool bake: the schema of its arguments changed" in told
    assert "2 failed, 2 passed" in told

    (project / "server.py").write_text(BROKEN)
    told = run(project)
    assert "breaks clients: tool bake: argument bread: a string is not taken, but an integer" in told
    assert "3 failed, 1 passed" in told


def test_what_hosts_stumble_over_fails_by_the_settings_of_the_project(project: Path) -> None:
    (project / "server.py").write_text(SERVER.replace("Bake bread.", "") + OTHER_RULE)
    told = run(project, "-k", "stumbling")
    assert "warning: tool bake: models do not know when to use it [description-missing]" in told
    assert "mime-type-missing" not in told
    (project / "pyproject.toml").write_text('[tool.mcpkit.check]\nignore = ["description-missing"]\n')
    assert "1 passed" in run(project, "-k", "stumbling")
    (project / "pyproject.toml").write_text("[tool.mcpkit.check]\nstrict = 5\n")
    assert "strict of [tool.mcpkit.check] is a bool, got 5" in run(project, "-k", "stumbling")


OTHER_RULE = '''

@server.resource("bakery://{shelf}")
def shelf(shelf: str) -> str:
    """Say what is on a shelf."""
    return shelf
'''
