"""The example of long work on several processes: one command starts all of them, and Ctrl-C leaves none."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from mcpkit import Client
from tests.helpers.process_client import environment
from tests.helpers.serving import PATIENCE, ROOT

if sys.platform == "win32":
    pytest.skip("Ctrl-C is sent as on POSIX", allow_module_level=True)
pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')
if shutil.which("redis-server") is None:
    pytest.skip("there is no redis-server: apt-get install redis-server", allow_module_level=True)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

EXAMPLE = ROOT / "examples" / "lab"
PROTOCOL = "io.modelcontextprotocol/"
KNOWS = {"elicitation": {"form": {}}, "extensions": {PROTOCOL + "tasks": {}}}


class Lab:
    """All of it, as the command starts it.

    Attributes:
        process: The command.
        urls: The endpoints of its replicas.
        ledger: The ledger.
    """

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger.txt"
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLE / "start.py"), "--data", str(folder / "data")],
            env=environment(LEDGER=self.ledger),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        told = "".join(iter(self.process.stdout.readline, "Ctrl-C ends all of it.\n"))
        self.urls = re.findall(r"^replica: (http://127\.0\.0\.1:\d+/mcp)$", told, re.MULTILINE)

    def children(self) -> list[str]:
        """Return the commands that it has started and that run."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in found]

    def ask(self, url: str, method: str, **params: Any) -> Any:
        """Send a request of a client that knows tasks, and return the result."""
        meta = {PROTOCOL + "protocolVersion": "2026-07-28", PROTOCOL + "clientCapabilities": KNOWS}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            "mcp-name": params.get("name") or params["taskId"],
        }
        with urlopen(Request(url, json.dumps(message).encode(), headers), timeout=PATIENCE) as answer:
            return json.loads(answer.read())["result"]

    def call(self, url: str, tool: str, **arguments: object) -> Any:
        """Call a tool, and return what comes of it."""
        return self.ask(url, "tools/call", name=tool, arguments=arguments)

    def ended(self, url: str, id_: str) -> Any:
        """Wait until a task has ended, say yes to what it asks, and return it."""
        while (task := self.ask(url, "tasks/get", taskId=id_))["status"] in {"working", "input_required"}:
            yes = {"action": "accept", "content": {"confirm": True}}
            if task["status"] == "input_required":
                answers = dict.fromkeys(task["inputRequests"], yes)
                self.ask(url, "tasks/update", taskId=id_, inputResponses=answers)
            time.sleep(0.05)  # a line is logged for each request, and nobody reads them
        return task


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    try:
        yield lab
    finally:
        lab.process.send_signal(signal.SIGTERM)
        lab.process.communicate(timeout=PATIENCE)


def test_one_command_starts_all_of_it_and_ctrl_c_ends_it(lab: Lab, hear_interrupts: None) -> None:
    assert len(lab.urls) == 2
    running = lab.children()
    assert [sum(word in each for each in running) for word in ("redis-server", "worker", "server.py")] == [
        1,
        1,
        2,
    ]
    assert "127.0.0.1" in next(each for each in running if "redis-server" in each)
    pids = Path(f"/proc/{lab.process.pid}/task/{lab.process.pid}/children").read_text().split()
    lab.process.send_signal(signal.SIGINT)
    assert lab.process.wait(PATIENCE) == 0
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_tasks_are_made_at_one_replica_run_by_the_worker_and_asked_for_at_the_other(lab: Lab) -> None:
    first, second = lab.urls
    task = lab.call(first, "slow_compute", seconds=1, label="x")
    assert task["resultType"] == "task"
    result = lab.ended(second, task["taskId"])["result"]["structuredContent"]
    worker = next(pid for pid in _pids(lab) if "worker" in Path(f"/proc/{pid}/cmdline").read_text())
    assert result["process"].endswith(f":{worker}")
    assert (result["label"], result["attempt"]) == ("x", 1)
    counted = lab.ended(second, lab.call(first, "count", n=3)["taskId"])
    assert counted["status"] == "completed"
    assert [line.split()[1] for line in lab.ledger.read_text().splitlines()] == ["1", "2", "3"]
    deleted = lab.ended(first, lab.call(second, "confirm_delete", filename="a.txt")["taskId"])
    assert deleted["result"]["content"][0]["text"] == "a.txt is deleted"
    assert "deleted a.txt" in lab.ledger.read_text()


def _pids(lab: Lab) -> list[str]:
    return Path(f"/proc/{lab.process.pid}/task/{lab.process.pid}/children").read_text().split()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_changes_are_heard_at_the_other_replica_and_seen_alike(lab: Lab, revision: str) -> None:
    first, second = lab.urls
    async with (
        Client(first, revision=revision) as one,
        Client(second, revision=revision) as other,
        other.watch(tools=True, resources=["lab://bench"]) as changes,
    ):
        assert (await one.call("toggle_tool")).text == "extra is there now"
        assert (await anext(changes)).kind == "tools"
        assert (await other.call("extra")).text == "here"
        assert (await one.call("toggle_tool")).text == "extra is gone"
        assert (await anext(changes)).kind == "tools"
        assert "extra" not in [tool["name"] for tool in await other.list_tools()]
        await one.call("touch_resource", {"uri": "lab://bench"})
        assert (await anext(changes)).uri == "lab://bench"
        assert (await one.call("count", {"n": 2})).text == "counted to 2"  # by whoever knows no tasks


def test_the_readme_names_every_file_and_tool() -> None:
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    names = [file.name for file in EXAMPLE.iterdir() if file.is_file() and file.name != "README.md"]
    assert [name for name in names if f"`{name}`" not in readme] == []
    tools = re.findall(r"@server\.tool.*\n(?:async )?def (\w+)", (EXAMPLE / "server.py").read_text("utf-8"))
    assert len(tools) == 5
    assert [tool for tool in tools if f"`{tool}(" not in readme] == []


def test_the_compose_file_starts_the_same(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text("utf-8"))["services"]
    assert services.keys() == {"redis", "replica-1", "replica-2", "worker", "nginx"}
    assert "--appendonly yes" in services["redis"]["command"]
    assert "mcpkit worker server:server" in services["worker"]["command"]
    upstream = re.findall(r"server (replica-\d):8000", (EXAMPLE / "nginx.conf").read_text("utf-8"))
    assert upstream == ["replica-1", "replica-2"]
