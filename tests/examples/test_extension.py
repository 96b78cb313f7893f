"""The example of an extension: receipts for the calls of tools, over pipes of a real process and over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.helpers.process_client import ROOT, environment, line

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "extension" / "server.py"
ID = "com.example/receipts"
META = "io.modelcontextprotocol/"
KNOWS = {"extensions": {ID: {}}}
ids = count(1)


def request(method: str, params: dict[str, Any], capabilities: dict[str, Any] = KNOWS) -> dict[str, Any]:
    """Return a request of the stateless era."""
    meta = {
        META + "protocolVersion": "2026-07-28",
        META + "clientInfo": {"name": "test", "version": "1"},
        META + "clientCapabilities": capabilities,
    }
    return {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": {**params, "_meta": meta}}


def buying(fruit: str = "pear", **more: Any) -> dict[str, Any]:
    return request("tools/call", {"name": "buy", "arguments": {"fruit": fruit, "count": 2}}, **more)


class Shop:
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
def shop() -> Iterator[Shop]:
    command = [sys.executable, str(EXAMPLE)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), bufsize=0
    ) as process:
        try:
            yield Shop(process)
        finally:
            process.kill()


def test_a_call_leaves_a_receipt_that_can_be_had_again(shop: Shop) -> None:
    capabilities = shop.ask(request("server/discover", {}))["result"]["capabilities"]
    assert capabilities["extensions"] == {ID: {"kept": 100}}

    shop.send(buying())
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


def test_what_a_tool_could_not_do_has_a_receipt_too(shop: Shop) -> None:
    shop.send(buying("quince"))
    shop.receive()
    assert shop.receive()["result"]["outcome"]["isError"] is True


def test_a_client_that_does_not_know_receipts_gets_the_order(shop: Shop) -> None:
    result = shop.ask(buying(capabilities={}))["result"]
    assert result["resultType"] == "complete"
    assert result["structuredContent"]["total"] == 80
    refused = shop.ask(request("receipts/get", {"id": "a"}, {}))["error"]
    assert (refused["code"], refused["data"]) == (-32021, {"requiredCapabilities": KNOWS})


def test_a_client_of_an_older_revision_gets_the_order(shop: Shop) -> None:
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": KNOWS,
        "clientInfo": {"name": "test", "version": "1"},
    }
    opened = shop.ask({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening})
    assert "extensions" not in opened["result"]["capabilities"]
    shop.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    call = buying()
    del call["params"]["_meta"]
    assert shop.ask(call)["result"]["structuredContent"]["total"] == 80
    call = {"jsonrpc": "2.0", "id": 2, "method": "receipts/get", "params": {"id": "a"}}
    assert shop.ask(call)["error"]["code"] == -32601
    read = {"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": "receipts://terms"}}
    assert "100 receipts" in shop.ask(read)["result"]["contents"][0]["text"]


def test_the_readme_shows_what_is_sent_and_answered(shop: Shop) -> None:
    asked, answered = (
        json.loads(block.split("```")[0])
        for block in EXAMPLE.with_name("README.md").read_text(encoding="utf-8").split("```json\n")[1:]
    )
    shop.send(asked)
    shop.receive()
    answer = shop.receive()
    for name in ("id", "issued"):
        assert len(answer["result"][name]) == len(answered["result"][name])
        answered["result"][name] = answer["result"][name]
    assert answer == answered
