"""Raw clients of other processes: HTTP over a socket, stdio to a child process."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.helpers.pipe import META, message, stateless_meta
from tests.helpers.serving import environment

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
SERVER = HELPERS / "servers" / "faulty.py"

DEFAULT_TIMEOUT = 30.0
"""Seconds after which a wait fails."""
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
SUBSCRIPTION = META + "subscriptionId"
STATELESS_META = stateless_meta()


class EventStream:
    """Event stream over a socket; ten seconds without data are a failure.

    Args:
        url: The endpoint.
        method: The request's method.
        message: The JSON of its body, or None.
        headers: Its headers beside `Accept` and `Content-Type`.
    """

    def __init__(self, url: str, method: str, message: Any, headers: dict[str, str]) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._http = HTTPConnection(parts.hostname, parts.port, timeout=10)
        body = None if message is None else json.dumps(message)
        self._http.request(method, parts.path, body, ACCEPT | headers)
        self.response: HTTPResponse = self._http.getresponse()
        self._lines = self._read_lines()

    def _read_lines(self) -> Iterator[str]:
        # The response's own readline takes a moment without data for the end of the stream.
        rest = b""
        while read := self.response.read1(65536):
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                yield line.decode()
        assert not rest, "the stream ends in the middle of a line"

    def event(self) -> dict[str, str]:
        """Return the fields of the next event; an empty dict at the end."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                return fields
        assert not fields, "the stream ends in the middle of an event"
        return {}

    def message(self) -> dict[str, Any]:
        """Return the next message."""
        while fields := self.event():
            if fields.get("data"):
                return json.loads(fields["data"])
        raise EOFError("the stream has ended")

    def rest(self) -> list[dict[str, Any]]:
        """Return all messages until the end of the stream."""
        messages = []
        while fields := self.event():
            if fields.get("data"):
                messages.append(json.loads(fields["data"]))
        return messages

    def close(self) -> None:
        """Close the connection."""
        self.response.close()
        self._http.close()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call(id_: int, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": STATELESS_META | (meta or {})}
    return message("tools/call", params, id_)


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def without(descriptor: int) -> list[str]:
    """Return a command prefix that closes a descriptor."""
    return ["sh", "-c", f'exec "$0" "$@" {descriptor}>&-']


class Host:
    """Child process with pipes; a context manager that kills it at the end.

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
        """Return the next message; other output fails."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            chunk = self._read_output()
            assert chunk, f"standard output ended; standard error: {self.read_notes()!r}"
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
        """Return the rest of standard output."""
        while chunk := self._read_output():
            self._received += chunk
        rest = bytes(self._received)
        self._received.clear()
        return rest

    def wait_for_note(self, text: str) -> None:
        """Wait for a text on standard error."""
        assert self.has_noted(text, within=DEFAULT_TIMEOUT), f"no {text!r}: {self.notes!r}"

    def has_noted(self, text: str, *, within: float) -> bool:
        """Return whether a text appears on standard error in time."""
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
        """Return all of standard error."""
        assert self.process.stderr is not None
        self.notes += self.process.stderr.read()
        return self.notes.decode()

    def wait(self) -> int:
        return self.process.wait(DEFAULT_TIMEOUT)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read_output(self) -> bytes:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], DEFAULT_TIMEOUT)[0], "the server is silent"
        return self.process.stdout.read(65536)
