"""Commands that run in this process, and a home and a project for each test of `mcpkit install`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mcpkit.cli import app, console
from mcpkit.cli.hosts.host_table import HOSTS

SERVER = '''from mcpkit import Server

mcp = Server("The shop")


@mcp.tool
def price(item: str) -> float:
    """Say what an item costs."""
    return 3.5
'''

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the consoles of the test before, and the width of its terminal."""
    monkeypatch.delenv("COLUMNS", raising=False)
    console.rich_console.cache_clear()


@pytest.fixture
def mcpkit(capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a command and returns its status, standard output and standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        console.rich_console.cache_clear()
        status = app.run(words)
        return int(status), *capsys.readouterr()

    return run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home on Linux."""
    for host in HOSTS.values():
        if host.user.variable:
            monkeypatch.delenv(host.user.variable, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (home := tmp_path / "home").mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setattr("sys.platform", "linux")
    return home


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a server in it."""
    (project := tmp_path / "project").mkdir()
    (project / "server.py").write_text(SERVER)
    monkeypatch.chdir(project)
    return project
