from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.serving import Served
from tests.interop.conftest import ROOT, TIME_OUT, RunNode
from tests.interop.tasks.journey import ADA, COMMAND

HERE = Path(__file__).parent

Account = dict[str, Any]
Travel = Callable[..., Account]


@pytest.fixture(scope="session")
def tasks_server() -> Iterator[Served]:
    """One server over HTTP for every client, which meets no error of its own."""
    with Served([*COMMAND, "http"]) as served:
        yield served
        served.stop()
    assert "Traceback" not in served.notes


@pytest.fixture(scope="session")
def reach(request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """How to reach the server: over stdio by a command, over HTTP by a URL and a token."""

    def reach(way: str) -> list[str]:
        if way == "stdio":
            return ["stdio", *COMMAND]
        served: Served = request.getfixturevalue("tasks_server")
        return ["http", f"{served.origin}/mcp", ADA]

    return reach


@pytest.fixture(scope="session")
def by_node(run_node: RunNode) -> Travel:
    """Run one of the drivers in `node/`, and return its account."""

    def travel(driver: str, *arguments: str) -> Account:
        return account(run_node(HERE / "node" / driver, *arguments))

    return travel


@pytest.fixture(scope="session")
def by_python(tmp_path_factory: pytest.TempPathFactory) -> Travel:
    """Run a driver with the library of others that it needs, and return its account."""
    if os.environ.get("MCPKIT_TEST_NODE") == "0":
        pytest.skip("left out on purpose, with the other clients of others: MCPKIT_TEST_NODE=0")
    home = tmp_path_factory.mktemp("python")

    def travel(environment: str, driver: str, *arguments: str) -> Account:
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        python = ROOT / ".servers" / environment / scripts / "python"
        if not python.exists():
            pytest.fail(f"the environment {environment} is not there: run `make setup`", pytrace=False)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        finished = subprocess.run(
            [python, HERE / driver, *arguments],
            capture_output=True,
            cwd=home,
            encoding="utf-8",
            env={**inherited, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            timeout=TIME_OUT,
        )
        return account(finished)

    return travel


def account(finished: subprocess.CompletedProcess[str]) -> Account:
    assert finished.returncode == 0, finished.stderr
    seen: Account = json.loads(finished.stdout)
    return seen
