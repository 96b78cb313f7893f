"""The examples as processes: an extension, a Unix socket, a server with login, and long work on several processes."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.request import Request, urlopen

import pytest

from mcpkit import Client
from tests.helpers.identity_provider import providing
from tests.helpers.oauth_flow import User
from tests.helpers.pipe import META, stateless_meta
from tests.helpers.process_client import ACCEPT, Host, call, environment, line
from tests.helpers.serving import DEFAULT_TIMEOUT, ROOT, Served
from tests.helpers.waiting import eventually

if sys.platform == "win32":
    pytest.skip("Unix sockets and signals", allow_module_level=True)

pytestmark = pytest.mark.slow
needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")

EXAMPLES = ROOT / "examples"
RECEIPTS = "com.example/receipts"


def request(method: str, extension: str, **params: Any) -> dict[str, Any]:
    """Return a stateless request of a client that has an extension."""
    capabilities = {"elicitation": {"form": {}}, "extensions": {extension: {}}}
    meta = stateless_meta(**{META + "clientCapabilities": capabilities})
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


# Documentation


async def test_documentation_server_finds_pages_and_serves_them() -> None:
    server = EXAMPLES / "docs_server" / "server.py"
    assert server.read_text("utf-8").count("\n") <= 60
    async with Client(str(server)) as client:
        found = (await client.call_tool("search", {"words": "systemd"})).structured_content
        assert found[0]["page"] == "systemd"
        [page] = await client.read_resource(found[0]["uri"])
        assert page["text"].startswith("# systemd\n")
        assert found[0]["text"] in page["text"]
        assert (await client.call_tool("search", {"words": "?"})).is_error
        uris = {each["uri"] for each in await client.list_resources()}
    assert {
        f"docs://mcpkit/{page.relative_to(ROOT / 'docs').as_posix()}"
        for page in (ROOT / "docs").rglob("*.md")
    } <= uris


# Extension


@pytest.fixture
def shop() -> Iterator[Host]:
    with Host(command=[sys.executable, str(EXAMPLES / "extension" / "server.py")], stderr=None) as host:
        yield host


def test_extension_returns_and_keeps_receipts_of_calls(shop: Host) -> None:
    capabilities = shop.ask(request("server/discover", RECEIPTS))["result"]["capabilities"]
    assert capabilities["extensions"] == {RECEIPTS: {"kept": 100}}
    shop.send(request("tools/call", RECEIPTS, name="buy", arguments={"fruit": "pear", "count": 2}))
    opened = shop.receive()
    assert opened["method"] == "notifications/receipts/opened"
    receipt = shop.receive()["result"]
    id_ = opened["params"]["id"]
    assert (receipt["resultType"], receipt["id"], receipt["tool"]) == ("receipt", id_, "buy")
    assert receipt["outcome"]["structuredContent"] == {"fruit": "pear", "count": 2, "total": 80}
    assert "content" not in receipt
    again = shop.ask(request("receipts/get", RECEIPTS, id=id_))["result"]
    assert again == {**receipt, "resultType": "complete"}
    voided = shop.ask(request("receipts/void", RECEIPTS, id=id_))["result"]
    assert voided.keys() == {"resultType", "_meta"}
    assert shop.ask(request("receipts/get", RECEIPTS, id=id_))["error"]["code"] == -32602


def test_extension_readme_shows_the_messages(shop: Host) -> None:
    blocks = (EXAMPLES / "extension" / "README.md").read_text(encoding="utf-8").split("```json\n")[1:]
    sent, expected = (json.loads(block.split("```")[0]) for block in blocks)
    shop.send(sent)
    shop.receive()
    received = shop.receive()
    for name in ("id", "issued"):
        assert len(received["result"][name]) == len(expected["result"][name])
        expected["result"][name] = received["result"][name]
    assert received == expected


# Unix socket


@contextmanager
def connection(path: Path) -> Iterator[BinaryIO]:
    with socket.socket(socket.AF_UNIX) as connected:
        connected.settimeout(DEFAULT_TIMEOUT)
        connected.connect(str(path))
        with connected.makefile("rwb", buffering=0) as stream:
            yield stream


def accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connected:
        return connected.connect_ex(str(path)) == 0


def test_unix_socket_serves_others_after_a_client_disconnects_and_ends_on_sigint(tmp_path: Path) -> None:
    path = tmp_path / "clock.sock"
    with Host(command=[sys.executable, str(EXAMPLES / "unix_socket" / "server.py"), str(path)]) as host:
        eventually(lambda: accepts(path))
        with connection(path) as other:
            with connection(path) as one:
                one.write(line(call(1, "now")) * 1000)
            other.write(b"not JSON\n" + line(call(1, "now")))
            assert json.loads(other.readline())["error"]["code"] == -32700
            assert json.loads(other.readline())["id"] == 1
            host.signal(signal.SIGINT)
            assert host.wait() == 0


# Notes

NOTES = [sys.executable, str(EXAMPLES / "notes" / "server.py")]


async def test_notes_logs_in_its_own_users() -> None:
    with Served(NOTES, PORT=0) as server:
        url = f"{server.origin}/mcp"
        ada, grace = User("ada"), User("grace")
        async with Client(url, auth=ada.auth) as client:
            whoami = (await client.call_tool("whoami")).structured_content
            assert whoami == {"subject": "ada", "scopes": ["notes:read"]}
            assert (await client.call_tool("list_notes")).text == "[]"
            assert "number 1" in (await client.call_tool("add_note", {"text": "Buy milk"})).text
            whoami = (await client.call_tool("whoami")).structured_content
            assert whoami["scopes"] == ["notes:read", "notes:write"]
        async with Client(url, auth=grace.auth) as client:
            assert (await client.call_tool("list_notes")).text == "[]"
        async with Client(url, auth=ada.auth) as client:  # with the tokens that are kept
            assert "Buy milk" in (await client.call_tool("list_notes")).text
        assert [len(each.asked) for each in (ada, grace)] == [2, 1]


async def test_notes_accepts_tokens_of_an_authorization_server() -> None:
    public_url = "https://notes.example.com/mcp"
    with (
        providing() as provider,
        Served(NOTES, PORT=0, ISSUER=provider.issuer, PUBLIC_URL=public_url) as server,
    ):
        token = provider.token("ada", "notes:write", public_url)
        async with Client(f"{server.origin}/mcp", token=token) as client:
            whoami = (await client.call_tool("whoami")).structured_content
            assert whoami == {"subject": "ada", "scopes": ["notes:read", "notes:write"]}
            await client.call_tool("add_note", {"text": "Buy milk"})
            assert "Buy milk" in (await client.call_tool("list_notes")).text


# Lab

LAB_TIMEOUT = 150.0  # it has five processes, which a busy machine runs in turn


class Lab:
    """The processes of the example: a command that starts replicas, a worker and Redis.

    Attributes:
        process: The command.
        urls: The endpoints of its replicas.
        ledger: The file that tools write to.
    """

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger.txt"
        command = [sys.executable, str(EXAMPLES / "lab" / "start.py"), "--data", str(folder / "data")]
        settings: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, env=environment(LEDGER=self.ledger), **settings)
        assert self.process.stdout is not None
        output = "".join(iter(self.process.stdout.readline, "Ctrl-C ends all of it.\n"))
        self.urls = re.findall(r"^replica: (http://127\.0\.0\.1:\d+/mcp)$", output, re.MULTILINE)

    def children(self) -> dict[str, str]:
        """Return the commands of the running processes by process id."""
        pids = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {pid: Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in pids}

    def request(self, url: str, method: str, **params: Any) -> Any:
        """Send a request of a client that has tasks, and return the result."""
        message = request(method, META + "tasks", **params)
        name = params.get("name") or params["taskId"]
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
        with urlopen(
            Request(url, json.dumps(message).encode(), {**ACCEPT, **headers}), timeout=LAB_TIMEOUT
        ) as response:
            return json.loads(response.read())["result"]

    def call(self, url: str, tool: str, **arguments: object) -> Any:
        return self.request(url, "tools/call", name=tool, arguments=arguments)

    def ended(self, url: str, id_: str) -> Any:
        """Poll a task until it has ended, accept what it requests, and return it."""
        while (task := self.request(url, "tasks/get", taskId=id_))["status"] in {"working", "input_required"}:
            if task["status"] == "input_required":
                accept = {"action": "accept", "content": {"confirm": True}}
                responses = dict.fromkeys(task["inputRequests"], accept)
                self.request(url, "tasks/update", taskId=id_, inputResponses=responses)
            time.sleep(0.05)
        return task


@needs_redis
@pytest.mark.timeout(600)
def test_lab_runs_tasks_of_any_replica_in_the_worker_and_ends_on_sigint(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    try:
        first, second = lab.urls
        children = lab.children()
        counts = [
            sum(word in each for each in children.values())
            for word in ("redis-server", "worker", "server.py")
        ]
        assert counts == [1, 1, 2]
        assert all("127.0.0.1" in each for each in children.values() if "redis-server" in each)
        task = lab.call(first, "slow_compute", seconds=0.1, label="x")
        assert task["resultType"] == "task"
        result = lab.ended(second, task["taskId"])["result"]["structuredContent"]
        (worker,) = [pid for pid, command in children.items() if "worker" in command]
        assert (result["process"].rpartition(":")[2], result["label"], result["attempt"]) == (worker, "x", 1)
        count = lab.ended(second, lab.call(first, "count", n=3)["taskId"])
        assert count["status"] == "completed"
        assert [text.split()[1] for text in lab.ledger.read_text().splitlines()] == ["1", "2", "3"]
        deletion = lab.ended(first, lab.call(second, "confirm_delete", filename="a.txt")["taskId"])
        assert deletion["result"]["content"][0]["text"] == "a.txt is deleted"
        assert "deleted a.txt" in lab.ledger.read_text()
        lab.process.send_signal(signal.SIGINT)
        assert lab.process.wait(LAB_TIMEOUT) == 0
        assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
    finally:
        lab.process.terminate()
        lab.process.communicate(timeout=LAB_TIMEOUT)
