"""The official inspector 2.x calls tools as tasks: its command line, and the connections that it holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.helpers.node import node_search_path
from tests.helpers.waiting import PATIENCE
from tests.interop.conftest import ROOT, TIME_OUT
from tests.interop.tasks.journey import STATELESS

CLIENTS = ROOT / "node_modules" / "inspector-2" / "clients"
COMMAND_LINE = [CLIENTS / "launcher" / "build" / "index.js", "--cli"]
HOLDER = CLIENTS / "mcpdo" / "build" / "mcp-bin.js"
ERAS = ["legacy", "modern"]
WAYS = ["stdio", "http"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", WAYS)
def test_the_command_line_waits_for_the_end_of_a_task(run_node, reach, era, way):
    _, *target = reach(way)
    token = ["--header", f"Authorization: Bearer {target.pop()}"] if way == "http" else []
    call = ["--method", "tools/call", "--tool-name"]
    options = ["--protocol-era", era, *token]
    finished = run_node(*COMMAND_LINE, *target, *options, *call, "add", "--tool-arg", "a=2", "b=3")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["content"][0]["text"] == "5"
    finished = run_node(*COMMAND_LINE, *target, *options, *call, "fail")
    assert finished.returncode == 5, finished.stderr  # its own status for a tool that has failed
    assert "out of paper" in finished.stdout


class Holder:
    """`mcpdo`, which holds connections in a daemon of its own.

    Args:
        folder: Its home.
        server: The entry of the server in its configuration.
    """

    def __init__(self, folder: Path, server: dict[str, Any]) -> None:
        path = node_search_path()
        node = shutil.which("node", path=path)
        assert node is not None, "run_node has found one"
        configuration = folder / "servers.json"
        configuration.write_text(json.dumps({"mcpServers": {"tasks": server}}))
        self._options = [node, HOLDER, "--config", configuration, "--format", "json"]
        self._environment = {**os.environ, "PATH": path, "HOME": str(folder), "NO_COLOR": "1"}
        self._environment["MCP_INSPECTOR_SECRET_STORE"] = "memory"
        exports = subprocess.check_output([node, HOLDER, "private"], encoding="utf-8", env=self._environment)
        self._environment |= dict(re.findall(r"^export (\w+)='(.*)'$", exports, re.MULTILINE))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a command."""
        return subprocess.Popen(
            [*self._options, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=self._environment,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command, and return its status and what it prints."""
        process = self.start(*arguments)
        printed, notes = process.communicate(timeout=TIME_OUT)
        return process.returncode, printed, notes

    def ask(self, *arguments: str) -> Any:
        """Run a command on the connection that is held, and return what it prints."""
        status, printed, notes = self.run("--connection", "tasks", *arguments)
        assert status == 0, f"{arguments}: {notes}"
        return json.loads(printed)


@pytest.fixture(params=ERAS)
def holder(request: pytest.FixtureRequest, tmp_path: Path, run_node: Any, reach: Any) -> Iterator[Holder]:
    """A connection over HTTP that is held."""
    _, url, token = reach("http")
    headers = {"Authorization": f"Bearer {token}"}
    holder = Holder(tmp_path, {"type": "streamable-http", "url": url, "headers": headers})
    try:
        status, _, notes = holder.run("connect", "tasks", "--era", request.param)
        assert status == 0, notes
        yield holder
    finally:
        holder.run("daemon", "stop")


def begin(way: list[str], tool: str, arguments: dict[str, Any]) -> str:
    """Have a task made by another client of the same principal, which speaks 2026-07-28, and return its id."""
    _, url, token = way
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": STATELESS,
        f"{prefix}clientCapabilities": {"extensions": {f"{prefix}tasks": {}}, "elicitation": {}},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": STATELESS,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=TIME_OUT) as answer:
        return str(json.load(answer)["result"]["taskId"])


def followed(holder: Holder, id_: str, status: str) -> None:
    """Look at a task until it is as it shall be."""
    deadline = time.monotonic() + PATIENCE
    while (seen := holder.ask("tasks/get", id_)["task"])["status"] != status:
        assert time.monotonic() < deadline, seen


def test_a_task_of_another_client_is_followed(holder: Holder, reach: Any) -> None:
    id_ = begin(reach("http"), "add", {"a": 2, "b": 3})
    followed(holder, id_, "completed")
    assert holder.ask("tasks/result", id_)["content"][0]["text"] == "5"


def test_a_task_of_another_client_is_cancelled(holder: Holder, reach: Any) -> None:
    id_ = begin(reach("http"), "hold", {})
    followed(holder, id_, "working")
    assert holder.ask("tasks/cancel", id_)["cancelled"]
    followed(holder, id_, "cancelled")
    assert holder.ask("tools/call", "was_stopped")["content"][0]["text"] == "stopped"
    status, _, notes = holder.run("--connection", "tasks", "tasks/get", "nobody-has-seen-this")
    assert status != 0
    assert "nobody-has-seen-this" in notes
