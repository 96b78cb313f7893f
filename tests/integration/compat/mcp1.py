"""Source that is written for `mcp` 1.x, run by `mcp` 1.30 in an environment of its own, and by mcpkit."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = Path(__file__).parent / "fastmcp" / "sources"
REFERENCE = ROOT / ".servers" / "mcp1" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
DEFAULT_TIMEOUT = 60.0

Message = dict[str, Any]

_HOMES = {
    "mcp.server.fastmcp.exceptions": "mcpkit.compat.fastmcp.exceptions",
    "mcp.server.fastmcp.prompts.base": "mcpkit.compat.fastmcp.messages",
    "mcp.server.fastmcp.prompts": "mcpkit.compat.fastmcp.prompts",
    "mcp.server.fastmcp.resources.types": "mcpkit.compat.fastmcp.resource_kinds",
    "mcp.server.fastmcp.resources": "mcpkit.compat.fastmcp.resources",
    "mcp.server.fastmcp.server": "mcpkit.compat.fastmcp.server",
    "mcp.server.fastmcp": "mcpkit.compat.fastmcp",
    "mcp.server.stdio": "mcpkit.compat.lowlevel.serving",
    "mcp.server.session": "mcpkit.compat.lowlevel.session",
    "mcp.server.transport_security": "mcpkit.compat.lowlevel.serving",
    "mcp.server.auth.settings": "mcpkit.compat.auth",
    "mcp.server.auth.provider": "mcpkit.compat.auth",
    "mcp.server.auth.middleware.auth_context": "mcpkit.compat.auth",
    "mcp.types": "mcpkit.compat.types",
}


def python_of(library: str) -> str:
    """Return the interpreter that has a library, `mcp` or `mcpkit`; without it, skip."""
    if library == "mcpkit":
        return sys.executable
    if not REFERENCE.exists():
        pytest.skip("the environment of mcp 1.x is not there: run `make setup`")
    return str(REFERENCE)


def source_for(library: str, name: str, folder: Path) -> Path:
    """Return a source as a library runs it: for mcpkit with other lines of imports, and nothing else changed."""
    text = (SOURCES / name).read_text("utf-8")
    if library == "mcpkit":
        text = re.sub(
            r"^from (mcp[\w.]*) import", lambda found: f"from {_HOMES[found[1]]} import", text, flags=re.M
        )
    path = folder / library / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FASTMCP"))}
    return {**kept, "PYTHONPATH": "", "PYTHONHASHSEED": "0", **more}


class Conversation:
    """A server over stdio and its client, which answers the requests of the server.

    Args:
        command: The command of the server.
        answers: The results of the server's requests by method.
        cwd: The folder of the server.
        variables: Further environment variables.
    """

    def __init__(
        self, command: Sequence[str], answers: Mapping[str, Any], cwd: Path | None = None, **variables: str
    ) -> None:
        self.answers = answers
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - `__exit__` closes it
        self.process = subprocess.Popen(
            command, stdin=PIPE, stdout=PIPE, stderr=self._log, env=environment(**variables), cwd=cwd
        )
        self._buffer = b""
        self._id = 0

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Message:
        """Return the next message; if it is a request, answer it."""
        assert self.process.stdout is not None
        while True:
            while b"\n" not in self._buffer:
                ready, _, _ = select.select([self.process.stdout], [], [], DEFAULT_TIMEOUT)
                chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
                assert chunk, f"no message from the server: {self._read_log()}"
                self._buffer += chunk
            line, _, self._buffer = self._buffer.partition(b"\n")
            if line.startswith(b"{"):
                break
        message: Message = json.loads(line)
        if {"id", "method"} <= message.keys():
            answer = self.answers[message["method"]]
            self.send({"id": message["id"], "result": answer(message) if callable(answer) else answer})
        return message

    def request(self, method: str, params: Message | None = None) -> list[Message]:
        """Return all messages up to the response, without their ids."""
        self._id += 1
        self.send({"id": self._id, "method": method, **({} if params is None else {"params": params})})
        messages = [self.receive()]
        while "method" in messages[-1]:
            messages.append(self.receive())
        assert messages[-1]["id"] == self._id
        return [{key: value for key, value in each.items() if key != "id"} for each in messages]

    def initialize(self, capabilities: Message, revision: str = "2025-11-25") -> list[Message]:
        client = {"name": "tester", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}
        messages = self.request("initialize", params)
        self.send({"method": "notifications/initialized"})
        return messages

    def close(self) -> int:
        """Close the input of the server and return its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEFAULT_TIMEOUT)

    def _read_log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.process.stdin, self.process.stdout, self._log):
            assert each is not None
            each.close()


def run_source(library: str, name: str, folder: Path, *arguments: str, **variables: str) -> Any:
    """Return what a script prints, which is JSON."""
    finished = subprocess.run(
        [python_of(library), str(source_for(library, name, folder)), *arguments],
        capture_output=True,
        cwd=folder,
        encoding="utf-8",
        env=environment(**variables),
        timeout=DEFAULT_TIMEOUT,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)
