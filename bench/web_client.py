"""A server under test in a process of its own, on a core of its own, and the raw HTTP client that asks it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import workload
from client import CLIENT_INFO, FIRST_ID, HANDSHAKE, STATELESS, line, requests
from contenders import Contender

DEFAULT_TIMEOUT = 60.0  # seconds that a server gets to start, and for any one answer


def take_a_core() -> None:
    """Keep this process, and the load generator that it starts, off the core that the servers get (Linux)."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


class WebServer:
    """One contender, serving on a free port of 127.0.0.1 from the lowest core that there is."""

    def __init__(self, contender: Contender, mode: str, environment: Mapping[str, str] | None = None) -> None:
        self.contender = contender
        listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.address = listening.getsockname()
        self.host = f"127.0.0.1:{self.address[1]}"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        with listening:
            self.process = subprocess.Popen(
                contender.web_argv(mode, listening.fileno()),
                pass_fds=[listening.fileno()],
                stdout=self._errors,
                stderr=self._errors,
                env={**os.environ, "PYDANTIC_DISABLE_PLUGINS": "__all__", **(environment or {})},
            )
        if sys.platform == "linux":
            os.sched_setaffinity(self.process.pid, {0})
        self._connection: socket.socket | None = None

    def connect(self) -> socket.socket:
        """Open a connection. The socket listens from the beginning: the server answers when it has started."""
        return socket.create_connection(self.address, timeout=DEFAULT_TIMEOUT)

    def head(
        self, length: int, headers: Mapping[str, str], method: str = "POST", path: str = "/mcp"
    ) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", "User-Agent: bench"]
        lines += [
            f"Content-Length: {length}",
            "Content-Type: application/json",
            f"Accept: {self.contender.accept}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "\r\n"]).encode()

    def ask(self, raw: bytes) -> Answer:
        """Send one whole request on the connection that is kept open, and read its answer."""
        if self._connection is None:
            self._connection = self.connect()
        try:
            self._connection.sendall(raw)
            return read_answer(self._connection)
        except OSError as error:
            raise AssertionError(f"{error!r}; standard error: {self.errors()}") from error

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        body = body.strip()
        return self.ask(self.head(len(body), headers) + body)

    def observe(self) -> dict[str, float]:
        """Return the counts of GET /observe, and the resident memory in bytes."""
        counts: dict[str, float] = json.loads(self.ask(self.head(0, {}, "GET", "/observe")).body)
        return {**counts, "resident": self.resident() * 1024}

    def processor_time(self) -> float:
        """Return the seconds of a processor that its threads have used so far."""
        return processor_time(self.process.pid)

    def resident(self) -> int:
        """Return resident memory in KiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(each.split()[1]) for each in status if each.startswith("VmRSS"))

    def handshake(self) -> dict[str, str]:
        """Open a session; return the headers of the requests in it."""
        message = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
        answer = self.post(line({"id": 1, "method": "initialize", "params": message}), {})
        headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
        assert answer.json()["result"]["protocolVersion"] == HANDSHAKE, answer
        assert self.post(line({"method": "notifications/initialized"}), headers).status == 202
        return headers

    def errors(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode(errors="replace") or "nothing"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()

    def __enter__(self) -> WebServer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Answer:
    """Status, headers (lower case) and body of an answer that has a Content-Length, and its size on the wire."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *rest = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)
        }
        self.body = body
        self.size = len(head) + 4 + len(body)

    def json(self) -> dict[str, Any]:
        assert self.status == 200, self
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.headers} {self.body[:500]!r}"


def processor_time(process: int) -> float:
    """Return the seconds of a processor that the threads of a process have used so far (Linux)."""
    tasks = Path(f"/proc/{process}/task")
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks.iterdir()) / 1e9


def read_answer(connection: socket.socket) -> Answer:
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _more(connection)
    head, body = received[:end], received[end + 4 :]
    answer = Answer(head, body)
    missing = int(answer.headers.get("content-length", 0)) - len(body)
    while missing > 0:
        chunk = _more(connection)
        body += chunk
        missing -= len(chunk)
    return Answer(head, body)


def _more(connection: socket.socket) -> bytes:
    chunk = connection.recv(65536)
    if not chunk:
        raise ConnectionError("the server closed the connection")
    return chunk


def stateless_headers(method: str, name: str | None = None) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
    return headers | ({"Mcp-Name": name} if name is not None else {})


def stateless(method: str, params: dict[str, Any]) -> bytes:
    """Return one request of the stateless revision, its envelope included."""
    return requests(method, params, 1, STATELESS)[0].strip()


class Calls:
    """Requests that differ in their id and, with sessions, in their session: heads, and what follows the id."""

    def __init__(self, server: WebServer, revision: str, sessions: int) -> None:
        params = {"name": "add", "arguments": workload.ARGUMENTS}
        before, _, self.tail = (
            requests("tools/call", params, 1, revision)[0].strip().partition(str(FIRST_ID).encode())
        )
        size = len(before) + len(str(FIRST_ID)) + len(self.tail)
        if revision == STATELESS:
            kinds = [stateless_headers("tools/call", "add")]
        elif sessions:
            kinds = [server.handshake() for _ in range(sessions)]
        else:
            kinds = [{"MCP-Protocol-Version": HANDSHAKE}]
        self.heads: Sequence[bytes] = [server.head(size, headers) + before for headers in kinds]

    def request(self, number: int) -> bytes:
        return self.heads[number % len(self.heads)] + str(number).encode() + self.tail
