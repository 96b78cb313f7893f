import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.node import node_search_path
from tests.helpers.serving import ROOT, Served, serving

HERE = Path(__file__).parent
TIMEOUT = 90.0
HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
TRANSPORTS = ["stdio", "http", "sse"]
PATHS = {"http": "/mcp", "sse": "/sse"}

Reach = Callable[[str], "list[str]"]
Run = Callable[..., "dict[str, Any]"]


def output_of(command: list[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a client to its end."""
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT,
        **options,
    )


def json_of(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the JSON that a client has printed."""
    assert finished.returncode == 0, finished.stderr
    return dict(json.loads(finished.stdout))


@pytest.fixture(scope="session")
def run_node(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
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
    return lambda *arguments: output_of([node, *arguments], cwd=home, env=environment)


@pytest.fixture(scope="session")
def run_driver(run_node: Callable[..., subprocess.CompletedProcess[str]]) -> Run:
    """Run one of the drivers in `node/` and `tasks/node/`."""
    return lambda driver, *arguments: json_of(run_node(HERE / driver, *arguments))


@pytest.fixture(scope="module")
def command(request: pytest.FixtureRequest) -> list[str]:
    """The command of the server that a module is about: `SERVER` there."""
    return [sys.executable, str(HERE / request.module.SERVER)]


@pytest.fixture(scope="module")
def http_server(command: list[str]) -> Iterator[Served]:
    """The server over HTTP, which logs no traceback."""
    with serving([*command, "http"]) as served:
        yield served
    assert "Traceback" not in served.notes


@pytest.fixture(scope="module")
def sse_server(command: list[str]) -> Iterator[Served]:
    """The server over HTTP+SSE, which logs no traceback."""
    with serving([*command, "sse"]) as served:
        yield served
    assert "Traceback" not in served.notes


@pytest.fixture(scope="module")
def reach(request: pytest.FixtureRequest, command: list[str]) -> Reach:
    """The target of a client by transport: the name of the transport, then the command or the URL."""

    def reach(transport: str) -> list[str]:
        if transport == "stdio":
            return ["stdio", *command]
        served: Served = request.getfixturevalue(f"{transport}_server")
        return [transport, served.origin + PATHS[transport]]

    return reach
