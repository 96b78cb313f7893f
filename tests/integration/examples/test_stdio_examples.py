"""The examples of an extension and of a Unix socket, as processes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pytest

from tests.helpers.process_client import DEFAULT_TIMEOUT, ROOT, call, environment, line

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets and signals"),
    pytest.mark.slow,
]

EXTENSION = ROOT / "examples" / "extension" / "server.py"

ID = "com.example/receipts"

META = "io.modelcontextprotocol/"

CAPABILITIES = {"extensions": {ID: {}}}

ids = count(1)


def request(
    method: str, params: dict[str, Any], capabilities: dict[str, Any] = CAPABILITIES
) -> dict[str, Any]:
    """Return a request of the stateless era."""
    meta = {
        META + "protocolVersion": "2026-07-28",
        META + "clientInfo": {"name": "test", "version": "1"},
        META + "clientCapabilities": capabilities,
    }
    return {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": {**params, "_meta": meta}}


def buy(fruit: str = "pear", **more: Any) -> dict[str, Any]:
    return request("tools/call", {"name": "buy", "arguments": {"fruit": fruit, "count": 2}}, **more)


class ExampleProcess:
    """The example as a child process, and its pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line(message))

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(message)
        answer = self.receive()
        assert answer["id"] == message["id"]
        return answer


@pytest.fixture
def shop() -> Iterator[ExampleProcess]:
    command = [sys.executable, str(EXTENSION)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), bufsize=0
    ) as process:
        try:
            yield ExampleProcess(process)
        finally:
            process.kill()


def test_extension_returns_and_keeps_receipts_of_calls(shop: ExampleProcess) -> None:
    capabilities = shop.ask(request("server/discover", {}))["result"]["capabilities"]
    assert capabilities["extensions"] == {ID: {"kept": 100}}

    shop.send(buy())
    opened = shop.receive()
    assert opened["method"] == "notifications/receipts/opened"
    receipt = shop.receive()["result"]
    assert receipt["resultType"] == "receipt"
    assert (receipt["id"], receipt["tool"]) == (opened["params"]["id"], "buy")
    assert receipt["outcome"]["structuredContent"] == {"fruit": "pear", "count": 2, "total": 80}
    assert "content" not in receipt

    again = shop.ask(request("receipts/get", {"id": receipt["id"]}))["result"]
    assert again["resultType"] == "complete"
    assert {**again, "resultType": "receipt"} == receipt

    assert shop.ask(request("receipts/void", {"id": receipt["id"]}))["result"].keys() == {
        "resultType",
        "_meta",
    }
    assert shop.ask(request("receipts/get", {"id": receipt["id"]}))["error"]["code"] == -32602


def test_extension_readme_shows_the_messages(shop: ExampleProcess) -> None:
    asked, answered = (
        json.loads(block.split("```")[0])
        for block in EXTENSION.with_name("README.md").read_text(encoding="utf-8").split("```json\n")[1:]
    )
    shop.send(asked)
    shop.receive()
    answer = shop.receive()
    for name in ("id", "issued"):
        assert len(answer["result"][name]) == len(answered["result"][name])
        answered["result"][name] = answer["result"][name]
    assert answer == answered


UNIX_SOCKET = ROOT / "examples" / "unix_socket" / "server.py"


class SocketServer(NamedTuple):
    process: subprocess.Popen[bytes]
    path: Path


def accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


@contextmanager
def connect(socket_server: SocketServer) -> Iterator[BinaryIO]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEFAULT_TIMEOUT)
        connection.connect(str(socket_server.path))
        with connection.makefile("rwb", buffering=0) as stream:
            yield stream


@pytest.fixture
def socket_server(tmp_path: Path) -> Iterator[SocketServer]:
    path = tmp_path / "clock.sock"
    process = subprocess.Popen([sys.executable, str(UNIX_SOCKET), str(path)], env=environment())
    try:
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while not accepts(path):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield SocketServer(process, path)
    finally:
        process.kill()
        process.wait()


def receive(stream: BinaryIO) -> dict[str, Any]:
    return json.loads(stream.readline())


def test_unix_socket_serves_others_after_a_client_disconnects(socket_server: SocketServer) -> None:
    with connect(socket_server) as other:
        with connect(socket_server) as one:
            one.write(line(call(1, "now")) * 1000)
        other.write(b"not JSON\n" + line(call(1, "now")))
        assert receive(other)["error"]["code"] == -32700
        assert receive(other)["id"] == 1


def test_unix_socket_server_ends_on_sigint(socket_server: SocketServer) -> None:
    with connect(socket_server) as one:
        one.write(line(call(1, "now")))
        receive(one)
        socket_server.process.send_signal(signal.SIGINT)
        assert socket_server.process.wait(DEFAULT_TIMEOUT) == 0
