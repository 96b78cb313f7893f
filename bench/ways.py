"""The ways to the counted server: pipes, HTTP, and the in-memory client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from client import HANDSHAKE, INITIALIZE, INITIALIZED, STATELESS, Child, requests
from contenders import Contender
from web_client import WebServer, stateless_headers

SERVERS = Path(__file__).resolve().parent / "instruction_servers"
Result = dict[str, Any]


class Way(Protocol):
    """A server in a process of its own, and how its client asks it."""

    @property
    def process(self) -> int:
        """The server's process id."""

    def ask(self, method: str, params: dict[str, Any], count: int) -> Result:
        """Make one request so many times, one after the other; return the last result."""

    def close(self) -> None:
        """End the server."""


def environment(checkout: Path) -> dict[str, str]:
    """Return what makes a process import mcpkit from a checkout, and be the same each time."""
    # The empty text lets Python write its bytecode, which the start would compile again and again otherwise.
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONHASHSEED": "0", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    return {"PYTHONPATH": str(checkout), **kept}


class Pipes:
    """stdio, in one of the eras."""

    def __init__(self, checkout: Path, before: Sequence[str], revision: str) -> None:
        os.environ.update(environment(checkout))
        self._revision = revision
        self._child = Child([*before, sys.executable, str(SERVERS / "server.py"), "stdio"])
        self.process = self._child.process.pid
        if revision == HANDSHAKE:
            self._child.ask(INITIALIZE)
            self._child.notify(INITIALIZED)

    def ask(self, method: str, params: dict[str, Any], count: int) -> Result:
        answer = b""
        for request in requests(method, params, count, self._revision):
            answer = self._child.ask(request)
        return _result(answer)

    def close(self) -> None:
        self._child.close()


class Web:
    """HTTP, in one of the eras."""

    def __init__(self, checkout: Path, before: Sequence[str], revision: str) -> None:
        command = (*before, sys.executable, str(SERVERS / "server.py"), "http")
        served = Served("mcpkit", sys.executable, None, command=command)
        self._server = WebServer(served, "", environment(checkout))
        self.process = self._server.process.pid
        self._revision = revision
        self._headers = self._server.handshake() if revision == HANDSHAKE else {}

    def ask(self, method: str, params: dict[str, Any], count: int) -> Result:
        headers = self._headers
        if self._revision == STATELESS:
            headers = stateless_headers(method, params.get("name") or params.get("uri"))
        body = b""
        for request in requests(method, params, count, self._revision):
            answer = self._server.post(request, headers)
            assert answer.status == 200, answer
            body = answer.body
        return _result(body)

    def close(self) -> None:
        self._server.close()


@dataclass(frozen=True)
class Served(Contender):
    """A contender of `WebServer` with a command of its own."""

    command: tuple[str, ...] = ()

    def web_argv(self, mode: str, descriptor: int) -> list[str]:
        return [*self.command, str(descriptor)]


class Memory:
    """The in-memory client; its own work is counted as well."""

    def __init__(self, checkout: Path, before: Sequence[str], revision: str) -> None:
        self._worker = subprocess.Popen(
            [*before, sys.executable, str(SERVERS / "server.py"), "memory", revision],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if before else None,
            env={**os.environ, **environment(checkout)},
            text=True,
        )
        self.process = self._worker.pid
        assert self._read() == "ready"

    def ask(self, method: str, params: dict[str, Any], count: int) -> Result:
        assert self._worker.stdin is not None
        print(json.dumps([method, params, count]), file=self._worker.stdin, flush=True)
        result: Result = self._read()
        return result

    def _read(self) -> Any:
        assert self._worker.stdout is not None
        return json.loads(self._worker.stdout.readline())

    def close(self) -> None:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.close()
        self._worker.wait(60)
        self._worker.stdout.close()


def _result(answer: bytes) -> Result:
    result: Result = json.loads(answer)["result"]
    return result
