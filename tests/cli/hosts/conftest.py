"""A home of its own for each test, on Linux."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.capture import CaptureFixture

from mcpkit.cli import app
from mcpkit.cli.configurations.table import HOSTS

SERVER = '''from mcpkit import Server

mcp = Server("The shop")


@mcp.tool
def price(item: str) -> float:
    """Say what an item costs."""
    return 3.5
'''

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for host in HOSTS.values():
        if host.user.variable:
            monkeypatch.delenv(host.user.variable, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setattr("sys.platform", "linux")
    return home


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "server.py").write_text(SERVER)
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def mcpkit(capsys: CaptureFixture[str]) -> Run:
    """Run a command: its status, its standard output, its standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = app.run(words)
        written = capsys.readouterr()
        return status, written.out, written.err

    return run
