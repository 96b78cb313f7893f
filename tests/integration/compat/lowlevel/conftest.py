from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
REFERENCE = ROOT / ".servers/mcp1/bin/python"
CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
    "experimental": {"x": {"y": 1}},
}

Message = dict[str, Any]


class Talk:
    """One client of one server over stdio, which waits for each answer; what the server asks is answered meanwhile."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self.number = 0
        self.refuses = False

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Message:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        message: Message = json.loads(line)
        if "method" in message and "id" in message:
            self.answer(message)
            message["id"] = "one of the server's"
        return message

    def answer(self, asked: Message) -> None:
        if self.refuses:
            self.send({"id": asked["id"], "error": {"code": -32077, "message": "Not today", "data": 1}})
            return
        answers: dict[str, Any] = {
            "elicitation/create": {"action": "accept", "content": {"city": "Rome", "more": [1]}},
            "sampling/createMessage": {
                "role": "assistant",
                "model": "m",
                "content": {"type": "text", "text": "said"},
                "stopReason": "endTurn",
            },
            "roots/list": {"roots": [{"uri": "file:///home", "name": "home"}]},
            "ping": {},
        }
        self.send({"id": asked["id"], "result": answers[asked["method"]]})

    def request(self, method: str, params: Message | None = None) -> list[Message]:
        """Return all that is said until the answer, without its id."""
        self.number += 1
        self.send({"id": self.number, "method": method, **({} if params is None else {"params": params})})
        said = [self.receive()]
        while said[-1].get("id") != self.number:
            said.append(self.receive())
        del said[-1]["id"]
        return said

    def begin(self, revision: str = "2025-11-25") -> list[Message]:
        said = self.request(
            "initialize",
            {
                "protocolVersion": revision,
                "capabilities": CAPABILITIES,
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self.send({"method": "notifications/initialized"})
        return said

    def close(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(20)


def lab(by: str) -> Talk:
    """Start the laboratory on mcpkit or on `mcp`."""
    if by == "mcp" and not REFERENCE.exists():
        pytest.skip("`make setup` makes the environment with mcp 1.x")
    python = str(REFERENCE) if by == "mcp" else sys.executable
    return Talk([python, str(HERE / "lab.py")], {"LAB": by})


@pytest.fixture(scope="session")
def reference() -> Iterator[Talk]:
    talk = lab("mcp")
    talk.begin()
    yield talk
    talk.close()


@pytest.fixture(scope="session")
def ours() -> Iterator[Talk]:
    talk = lab("mcpkit")
    talk.begin()
    yield talk
    assert talk.close() == 0
