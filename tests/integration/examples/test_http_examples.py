"""The examples of a server with login and of long work on several processes."""

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
from tests.helpers.identity_provider import providing
from tests.helpers.oauth_flow import User
from tests.helpers.process_client import environment
from tests.helpers.serving import DEFAULT_TIMEOUT, ROOT, Served

if sys.platform == "win32":
    pytest.skip("POSIX signals", allow_module_level=True)
pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')
if shutil.which("redis-server") is None:
    pytest.skip("there is no redis-server: apt-get install redis-server", allow_module_level=True)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NOTES = ROOT / "examples" / "notes" / "server.py"


async def test_notes_logs_in_its_own_users() -> None:
    with Served([sys.executable, str(NOTES)], PORT=0) as server:
        url = f"{server.origin}/mcp"
        ada, grace = User("ada"), User("grace")
        async with Client(url, auth=ada.auth) as client:
            assert (await client.call_tool("whoami")).structured_content == {
                "subject": "ada",
                "scopes": ["notes:read"],
            }
            assert (await client.call_tool("list_notes")).text == "[]"
            assert "number 1" in (await client.call_tool("add_note", {"text": "Buy milk"})).text
            assert (await client.call_tool("whoami")).structured_content["scopes"] == [
                "notes:read",
                "notes:write",
            ]
        async with Client(url, auth=grace.auth) as client:
            assert (await client.call_tool("list_notes")).text == "[]"
        async with Client(url, auth=ada.auth) as client:  # with the tokens that are kept
            assert "Buy milk" in (await client.call_tool("list_notes")).text
        assert [len(each.asked) for each in (ada, grace)] == [2, 1]


async def test_notes_accepts_tokens_of_an_authorization_server() -> None:
    public_url = "https://notes.example.com/mcp"
    with (
        providing() as provider,
        Served([sys.executable, str(NOTES)], PORT=0, ISSUER=provider.issuer, PUBLIC_URL=public_url) as server,
    ):
        token = provider.token("ada", "notes:write", public_url)
        async with Client(f"{server.origin}/mcp", token=token) as client:
            whoami = (await client.call_tool("whoami")).structured_content
            assert whoami == {"subject": "ada", "scopes": ["notes:read", "notes:write"]}
            await client.call_tool("add_note", {"text": "Buy milk"})
            assert "Buy milk" in (await client.call_tool("list_notes")).text


LAB = ROOT / "examples" / "lab"

PROTOCOL = "io.modelcontextprotocol/"

CAPABILITIES = {"elicitation": {"form": {}}, "extensions": {PROTOCOL + "tasks": {}}}


class LabProcess:
    """All of it, as the command starts it.

    Attributes:
        process: The command.
        urls: The endpoints of its replicas.
        ledger: The ledger.
    """

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger.txt"
        self.process = subprocess.Popen(
            [sys.executable, str(LAB / "start.py"), "--data", str(folder / "data")],
            env=environment(LEDGER=self.ledger),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        output = "".join(iter(self.process.stdout.readline, "Ctrl-C ends all of it.\n"))
        self.urls = re.findall(r"^replica: (http://127\.0\.0\.1:\d+/mcp)$", output, re.MULTILINE)

    def children(self) -> list[str]:
        """Return the commands that it has started and that run."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in found]

    def ask(self, url: str, method: str, **params: Any) -> Any:
        """Send a request of a client that knows tasks, and return the result."""
        meta = {PROTOCOL + "protocolVersion": "2026-07-28", PROTOCOL + "clientCapabilities": CAPABILITIES}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            "mcp-name": params.get("name") or params["taskId"],
        }
        with urlopen(Request(url, json.dumps(message).encode(), headers), timeout=DEFAULT_TIMEOUT) as answer:
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
def lab(tmp_path: Path) -> Iterator[LabProcess]:
    lab = LabProcess(tmp_path)
    try:
        yield lab
    finally:
        lab.process.send_signal(signal.SIGTERM)
        lab.process.communicate(timeout=DEFAULT_TIMEOUT)


def test_lab_starts_all_processes_and_ends_them_on_sigint(lab: LabProcess) -> None:
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
    assert lab.process.wait(DEFAULT_TIMEOUT) == 0
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_lab_runs_tasks_of_any_replica_in_the_worker(lab: LabProcess) -> None:
    first, second = lab.urls
    task = lab.call(first, "slow_compute", seconds=1, label="x")
    assert task["resultType"] == "task"
    result = lab.ended(second, task["taskId"])["result"]["structuredContent"]
    worker = next(pid for pid in _pids(lab) if "worker" in Path(f"/proc/{pid}/cmdline").read_text())
    assert result["process"].endswith(f":{worker}")
    assert (result["label"], result["attempt"]) == ("x", 1)
    count = lab.ended(second, lab.call(first, "count", n=3)["taskId"])
    assert count["status"] == "completed"
    assert [line.split()[1] for line in lab.ledger.read_text().splitlines()] == ["1", "2", "3"]
    deletion = lab.ended(first, lab.call(second, "confirm_delete", filename="a.txt")["taskId"])
    assert deletion["result"]["content"][0]["text"] == "a.txt is deleted"
    assert "deleted a.txt" in lab.ledger.read_text()


def _pids(lab: LabProcess) -> list[str]:
    return Path(f"/proc/{lab.process.pid}/task/{lab.process.pid}/children").read_text().split()
