from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.node import node_search_path
from tests.helpers.serving import Served, serving
from tests.interop.journey import COMMAND

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
TIME_OUT = 90.0
PATHS = {"http": "/mcp", "sse": "/sse"}

Reach = Callable[[str], "list[str]"]
RunNode = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run_node(tmp_path_factory: pytest.TempPathFactory) -> RunNode:
    """Run `node` with arguments, in an empty folder that is its home too."""
    if os.environ.get("MCPKIT_TEST_NODE") == "0":
        pytest.skip("left out on purpose: MCPKIT_TEST_NODE=0")
    path = node_search_path()
    node = shutil.which("node", path=path)
    if node is None or not (ROOT / "node_modules" / "client-2").is_dir():
        pytest.fail(
            "the Node clients are not installed: run `make setup`, or leave them out with MCPKIT_TEST_NODE=0",
            pytrace=False,
        )
    home = tmp_path_factory.mktemp("node")
    environment = {**os.environ, "PATH": path, "HOME": str(home), "NO_COLOR": "1"}

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [node, *map(str, arguments)],
            capture_output=True,
            cwd=home,
            encoding="utf-8",
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=TIME_OUT,
        )

    return run


@pytest.fixture(scope="session")
def run_driver(run_node: RunNode) -> RunNode:
    """Run one of the drivers in `node/`."""

    def run(driver: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_node(HERE / "node" / driver, *arguments)

    return run


@pytest.fixture(scope="session")
def http_server() -> Iterator[Served]:
    """One server over HTTP for every client of every revision, which meets no error of its own."""
    with serving([*COMMAND, "http"]) as served:
        yield served
    assert "Traceback" not in served.notes


@pytest.fixture(scope="session")
def sse_server() -> Iterator[Served]:
    """One server over HTTP+SSE for every client, which meets no error of its own."""
    with serving([*COMMAND, "sse"]) as served:
        yield served
    assert "Traceback" not in served.notes


@pytest.fixture(scope="session")
def reach(request: pytest.FixtureRequest) -> Reach:
    """How to reach a server over a transport: its name, then the command or the URL."""

    def reach(transport: str) -> list[str]:
        if transport == "stdio":
            return ["stdio", *COMMAND]
        served: Served = request.getfixturevalue(f"{transport}_server")
        return [transport, served.origin + PATHS[transport]]

    return reach
