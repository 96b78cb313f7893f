"""A host as bare as can be: it starts a server as a child process and speaks to it over real pipes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("server.py")
ROOT = Path(__file__).parents[3]
HELPERS = Path(__file__).parents[1]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PATIENCE = 30.0
"""Seconds until a test gives up on something that must happen."""


def call(id_: int, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": META | (meta or {})}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def text_of(message: dict[str, Any]) -> str:
    assert "result" in message, message
    return "".join(block["text"] for block in message["result"]["content"])


def environment(**changes: object) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return inherited | {"PYTHONPATH": str(ROOT)} | {name: str(value) for name, value in changes.items()}


def without(descriptor: int) -> list[str]:
    """Return the prefix of a command that finds a descriptor closed."""
    return ["sh", "-c", f'exec "$0" "$@" {descriptor}>&-']


class Host:
    """Starts the server of these tests; a context manager that leaves no process behind.

    Args:
        stdin, stdout, stderr: As of `subprocess.Popen`.
        command: What starts it, where that is another one.
        prefix: A command that becomes the server, whose own command follows it.
        settings: Environment variables that the server reads.
    """

    def __init__(
        self,
        *,
        stdin: Any = subprocess.PIPE,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        command: Sequence[str] = (sys.executable, str(SERVER)),
        prefix: Sequence[str] = (),
        **settings: object,
    ) -> None:
        self.process = subprocess.Popen(
            [*prefix, *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment(**settings),
            bufsize=0,
            start_new_session=True,
        )
        self.notes = b""
        self._received = bytearray()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def send(self, *messages: dict[str, Any]) -> None:
        self.send_bytes(b"".join(map(line, messages)))

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def receive(self) -> dict[str, Any]:
        """Return the next message; anything else on standard output fails."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            chunk = self._read_output()
            assert chunk, f"standard output ended; standard error says {self.read_notes()!r}"
            self._received += chunk
        message = json.loads(self._received[:end])
        del self._received[: end + 1]
        return message

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(message)
        answer = self.receive()
        assert answer.get("id") == message["id"]
        return answer

    def read_output(self) -> bytes:
        """Return what is left of standard output, up to its end."""
        while chunk := self._read_output():
            self._received += chunk
        rest = bytes(self._received)
        self._received.clear()
        return rest

    def wait_for_note(self, text: str) -> None:
        """Wait until the server says something on standard error."""
        assert self.has_noted(text, within=PATIENCE), f"no {text!r}: {self.notes!r}"

    def has_noted(self, text: str, *, within: float) -> bool:
        """Tell whether the server has said something on standard error, or does within some seconds."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + within
        while text.encode() not in self.notes:
            if not select.select([self.process.stderr], [], [], max(0, deadline - time.monotonic()))[0]:
                return False
            chunk = self.process.stderr.read(65536)
            assert chunk, f"standard error ended without {text!r}: {self.notes!r}"
            self.notes += chunk
        return True

    def read_notes(self) -> str:
        """Return all of standard error, up to its end."""
        assert self.process.stderr is not None
        self.notes += self.process.stderr.read()
        return self.notes.decode()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read_output(self) -> bytes:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], PATIENCE)[0], "the server is silent"
        return self.process.stdout.read(65536)
