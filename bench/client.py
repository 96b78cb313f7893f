"""The raw client: request bytes built before, two pipes, `os.write`, `os.read`, no parsing in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
CHUNK = 65536  # what a pipe holds on Linux: a larger buffer would never be filled by one read
FIRST_ID = 1_000_000  # ids of one width, so that equal answers have equal lengths
CLIENT_INFO = {"name": "bench", "version": "1.0.0"}


class ChildEndedError(Exception):
    """The server closed its stdout, or was stopped because it did not answer in time."""


class Child:
    """A server under test, in a process of its own.

    `started` is what `time.perf_counter()` read just before the process was created; `errors` is what it
    wrote to stderr, line by line.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # As the documentation of mcp advises for cold starts; for everybody.
            env={**os.environ, "PYDANTIC_DISABLE_PLUGINS": "__all__"},
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin = self.process.stdin.fileno()
        self._stdout = self.process.stdout.fileno()
        self.errors: list[bytes] = []
        self._listener = threading.Thread(target=self._collect_errors, daemon=True)
        self._listener.start()

    def _collect_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)

    def _ended(self) -> ChildEndedError:
        self.process.kill()
        self._listener.join(1)
        return ChildEndedError(
            b"".join(self.errors[-30:]).decode(errors="replace") or "no answer, nothing on stderr"
        )

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Kill the child when the block takes longer, so that the read in it returns."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def notify(self, message: bytes) -> None:
        os.write(self._stdin, message)

    def ask(self, request: bytes) -> bytes:
        """Send one request and return the bytes up to the newline that ends the answer."""
        os.write(self._stdin, request)
        answer = os.read(self._stdout, CHUNK)
        if not answer.endswith(b"\n"):
            parts = [answer]
            while parts[-1] and not parts[-1].endswith(b"\n"):
                parts.append(os.read(self._stdout, CHUNK))
            if not parts[-1]:
                raise self._ended()
            answer = b"".join(parts)
        return answer

    def sequential(self, requests: Sequence[bytes]) -> tuple[float, list[bytes]]:
        """Ask one after the other; return seconds and the answers."""
        ask = self.ask
        answers: list[bytes] = []
        start = time.perf_counter()
        for request in requests:
            answers.append(ask(request))
        return time.perf_counter() - start, answers

    def concurrent(self, requests: Sequence[bytes], window: int) -> tuple[float, list[bytes]]:
        """Keep `window` requests in flight until all are answered; return seconds and the answers."""
        total = len(requests)
        chunks: list[bytes] = []
        start = time.perf_counter()
        os.write(self._stdin, b"".join(requests[:window]))
        sent, received = window, 0
        while received < total:
            chunk = os.read(self._stdout, CHUNK)
            if not chunk:
                raise self._ended()
            chunks.append(chunk)
            arrived = chunk.count(b"\n")
            received += arrived
            if arrived and sent < total:
                os.write(self._stdin, b"".join(requests[sent : sent + arrived]))
                sent += arrived
        seconds = time.perf_counter() - start
        return seconds, b"".join(chunks).splitlines(keepends=True)

    @contextmanager
    def pinned(self, *, one_core: bool) -> Iterator[None]:
        """Keep client and server on one core, or on one each, while the block lasts (Linux; elsewhere nothing)."""
        if sys.platform != "linux":
            yield
            return
        cores = os.sched_getaffinity(0)
        ours = min(cores)
        self._pin({ours}, {ours if one_core else max(cores)})
        try:
            yield
        finally:
            self._pin(cores, cores)

    def _pin(self, ours: set[int], theirs: set[int]) -> None:
        os.sched_setaffinity(0, ours)
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with suppress(ProcessLookupError):  # a worker thread that has just ended
                os.sched_setaffinity(int(thread), theirs)

    def memory(self) -> tuple[int, int]:
        """Return resident memory now and at its peak, in KiB."""
        fields: dict[str, int] = {}
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                name, _, value = line.partition(":")
                if name in {"VmRSS", "VmHWM"}:
                    fields[name] = int(value.split()[0])
        return fields["VmRSS"], fields["VmHWM"]

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._listener.join()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


INITIALIZE = line(
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO},
    }
)
INITIALIZED = line({"method": "notifications/initialized"})


def requests(method: str, params: dict[str, Any], count: int, revision: str) -> list[bytes]:
    """Return `count` requests that differ in their id alone."""
    if revision == STATELESS:
        envelope = {"protocolVersion": STATELESS, "clientInfo": CLIENT_INFO, "clientCapabilities": {}}
        params = params | {
            "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in envelope.items()}
        }
    return [line({"id": FIRST_ID + n, "method": method, "params": params}) for n in range(count)]


def results(answers: Sequence[bytes], count: int) -> list[dict[str, Any]]:
    """Return the results in order of id, once every request is known to be answered, and none failed."""
    messages = [json.loads(answer) for answer in answers]
    failed = next((message for message in messages if "result" not in message), None)
    if failed is not None:
        raise AssertionError(f"an answer that is no result: {failed}")
    ordered = {message["id"]: message["result"] for message in messages}
    if len(messages) != count or sorted(ordered) != list(range(FIRST_ID, FIRST_ID + count)):
        raise AssertionError(f"{count} requests, {len(messages)} answers, {len(ordered)} ids")
    return [ordered[FIRST_ID + n] for n in range(count)]
