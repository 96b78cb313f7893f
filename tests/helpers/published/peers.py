"""A process that serves MCP, driven by raw JSON-RPC messages over stdio or HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]
START = (
    300.0  # seconds until a server has answered for the first time: some import for ten, and others work here
)
ANSWER = 120.0  # seconds for each other answer
STOP = 5.0

CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}


def replied(request: Message) -> Message:
    """Answer what a server asks, always the same."""
    said: Message = {"jsonrpc": "2.0", "id": request["id"]}
    match request["method"]:
        case "roots/list":
            return said | {"result": {"roots": [{"uri": "file:///roots/one", "name": "one"}]}}
        case "elicitation/create":
            return said | {"result": {"action": "decline"}}
        case "ping":
            return said | {"result": {}}
        case _:
            return said | {"error": {"code": -1, "message": "The user refused."}}


class Stdio:
    """A server as a child process, whose lines are messages."""

    def __init__(
        self, command: Sequence[str], settings: Mapping[str, str], folder: Path, notes: Path
    ) -> None:
        self._notes = notes.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._notes,
            env=dict(settings),
            cwd=folder,
            start_new_session=True,
        )
        self._heard: queue.Queue[Message | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # what a server prints beside is no message
                message = json.loads(line)
                if isinstance(message, dict):
                    self._heard.put(message)
        self._heard.put(None)

    def tell(self, message: Message) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def ask(self, message: Message, patience: float = ANSWER) -> list[Message]:
        """Send a request and return all that is heard until it is answered, the answer last."""
        self.tell(message)
        heard: list[Message] = []
        deadline = time.monotonic() + patience
        while True:
            try:
                said = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return [*heard, {"no answer within": patience}]
            if said is None:
                self._heard.put(None)
                return [*heard, {"closed": True}]
            heard.append(said)
            if "method" not in said and said.get("id") == message["id"]:
                return heard
            if "method" in said and "id" in said:
                self.tell(replied(said))

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._listener.join(STOP)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._notes.close()


class Http:
    """A server as a child process that listens: each request is a POST, answered by JSON or events."""

    def __init__(
        self,
        command: Sequence[str],
        settings: Mapping[str, str],
        folder: Path,
        notes: Path,
        port: int,
        path: str,
    ) -> None:
        self._port, self._path = port, path
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        self._notes = notes.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._notes,
            stderr=self._notes,
            env=dict(settings),
            cwd=folder,
            start_new_session=True,
        )
        deadline = time.monotonic() + START
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.05)

    def _posted(self, message: Message, patience: float) -> Iterator[Message]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=patience)
        try:
            connection.request("POST", self._path, json.dumps(message), self._headers)
            answer = connection.getresponse()
            if (session := answer.getheader("mcp-session-id")) is not None:
                self._headers["mcp-session-id"] = session
            kind = (answer.getheader("content-type") or "").partition(";")[0]
            if kind == "text/event-stream":
                for line in answer:
                    if line.startswith(b"data:") and line[5:].strip():
                        yield json.loads(line[5:])
            else:
                body = answer.read()
                if answer.status >= 300:
                    yield {"status": answer.status}
                if kind == "application/json" and body:
                    yield json.loads(body)
        except OSError as error:
            yield {"closed": type(error).__name__}
        finally:
            connection.close()

    def tell(self, message: Message) -> None:
        list(self._posted(message, ANSWER))

    def ask(self, message: Message, patience: float = ANSWER) -> list[Message]:
        heard = []
        for said in self._posted(message, patience):
            heard.append(said)
            if message["method"] == "initialize" and "result" in said:
                self._headers["mcp-protocol-version"] = said["result"]["protocolVersion"]
            if "method" in said and "id" in said:
                self.tell(replied(said))
        return heard

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._notes.close()


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
