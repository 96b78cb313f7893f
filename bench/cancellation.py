"""Measures how long a call goes on that is cut off: `python bench/cancellation.py`. See README.md.

Three tools, each of which would take ten seconds, cut off in four ways, at three servers. Each figure is the longest of
the rounds:

- *caller*: until who called is free: has an answer to the call, or where it has given the call up itself, to the next.
- *work*: until nothing of the tool's function runs any more.
- *process*: until the server's process is gone; it is shut down when the caller is free, by closing its standard
  input, by SIGTERM over HTTP, by Ctrl+C itself.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import environment
from client import INITIALIZE, INITIALIZED, line, requests
from client import STATELESS as REVISION

SERVER = Path(__file__).resolve().parent / "peers" / "stoppable.py"
PEERS = ("mcpkit", "mcp", "fastmcp")
TOOLS = {
    "wait": "async function that awaits",
    "sleep": "plain function that sleeps 10 s",
    "spin": "busy loop in a process",
}
WAYS = ("client cancels", "time-out", "disconnect (HTTP)", "Ctrl+C")
LACKING = {("mcp", "time-out")}
"""What a peer does not offer its authors."""

SECONDS = 10.0
TIMEOUT = 1.0
BRIEF = 0.5  # seconds after which work that has not stopped is measured apart from the process
DEFAULT_TIMEOUT = 30.0


class Figures(NamedTuple):
    """Seconds after the call was cut off; infinite for never."""

    caller: float
    work: float
    process: float


class Stopwatch:
    """One server process, one call, and the moment at which that is cut off."""

    def __init__(self, python: Path, peer: str, tool: str, timeout: float, *descriptors: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.tool = tool
        self.cut = 0.0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self.process = subprocess.Popen(
            [str(python), str(SERVER), peer, str(timeout), *map(str, descriptors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            pass_fds=descriptors,
            start_new_session=True,
            bufsize=0,
        )
        self.life = os.pidfd_open(self.process.pid)
        self.worker = -1
        self.worker_over: float | None = None
        self.has_hung_up = False

    def arguments(self, seconds: float = SECONDS) -> dict[str, Any]:
        return {"name": self.tool, "arguments": {"folder": self.folder.name, "seconds": seconds}}

    def event(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> tuple[float, int] | None:
        """Return the time and the process of an event that the function has written; None if it does not in time."""
        path = Path(self.folder.name) / name
        end = time.monotonic() + timeout
        while not path.exists():
            if time.monotonic() > end or (timeout and self.is_over(self.life)):
                return None
            time.sleep(0.0005)
        moment, process = path.read_text().split()
        return float(moment), int(process)

    def remove_events(self) -> None:
        """Remove the events of an earlier call."""
        for path in Path(self.folder.name).iterdir():
            path.unlink()

    def begun(self) -> float:
        """Wait until the function runs, and return since when."""
        begun = self.event("begun")
        assert begun is not None, f"the tool does not run; standard error: {self.errors()}"
        if begun[1] != self.process.pid:
            self.worker = os.pidfd_open(begun[1])
        return begun[0]

    def work_stopped(self, timeout: float) -> float | None:
        """Return when nothing of the function ran any more; None when something still does then."""
        end = time.monotonic() + timeout
        while True:
            if stopped := self.event("stopped", 0):
                return stopped[0]
            if self.worker >= 0 and self.worker_over is None and self.is_over(self.worker):
                self.worker_over = time.monotonic()
            if self.worker_over is not None:
                return self.worker_over
            if self.worker < 0 and self.is_over(self.life):
                return time.monotonic()
            if time.monotonic() > end:
                return None
            time.sleep(0.0005)

    def is_over(self, descriptor: int, timeout: float = 0) -> bool:
        return bool(select.select([descriptor], [], [], timeout)[0])

    def ended(self) -> float:
        """Wait for the end of the process, and return when it was."""
        return time.monotonic() if self.is_over(self.life, DEFAULT_TIMEOUT) else float("inf")

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode(errors="replace") or "nothing"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._errors.close()
        for descriptor in (self.life, self.worker):
            if descriptor >= 0:
                os.close(descriptor)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.folder.cleanup()


class Stdio(Stopwatch):
    """A server at the other end of two pipes."""

    def __init__(self, python: Path, peer: str, tool: str, timeout: float = 0) -> None:
        super().__init__(python, peer, tool, timeout)
        self._received = b""
        self.send(INITIALIZE)
        self.receive(1)
        self.send(INITIALIZED)
        if tool == "spin":  # whatever it takes to start a process is not what is measured
            self.call(2, self.arguments(0))
            self.receive(2)
            self.remove_events()
        self.call(3, self.arguments())
        self.since = self.begun()

    def send(self, message: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(message)

    def call(self, id_: int, params: dict[str, Any]) -> None:
        self.send(line({"id": id_, "method": "tools/call", "params": params}))

    def receive(self, id_: int) -> bool:
        """Read up to a response; return whether there was one."""
        assert self.process.stdout is not None
        end = time.monotonic() + DEFAULT_TIMEOUT
        output = self.process.stdout.fileno()
        while True:
            while b"\n" not in self._received:
                watched = (
                    [output] if self.worker < 0 or self.worker_over is not None else [output, self.worker]
                )
                ready = select.select(watched, [], [], max(0, end - time.monotonic()))[0]
                if self.worker in ready:
                    self.worker_over = time.monotonic()
                if not ready:
                    return False
                if output not in ready:
                    continue
                chunk = os.read(output, 65536)
                if not chunk:
                    self.has_hung_up = True
                    return False
                self._received += chunk
            first, _, self._received = self._received.partition(b"\n")
            if json.loads(first).get("id") == id_:
                return True

    def shut_down(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


class Http(Stopwatch):
    """A server at the other end of a connection, in the stateless era."""

    def __init__(self, python: Path, peer: str, tool: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.address = listening.getsockname()
            super().__init__(python, peer, tool, 0, listening.fileno())
        if tool == "spin":
            with self.post(self.arguments(0)) as connection:
                self.read(connection)
            self.remove_events()
        self.connection = self.post(self.arguments())
        self.since = self.begun()

    def post(self, params: dict[str, Any]) -> socket.socket:
        body = requests("tools/call", params, 1, REVISION)[0].strip()
        headers = {
            "Host": f"127.0.0.1:{self.address[1]}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": params["name"],
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection = socket.create_connection(self.address, timeout=DEFAULT_TIMEOUT)
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        return connection

    def read(self, connection: socket.socket) -> None:
        """Read until the result, which contains one of four words."""
        received = b""
        while not any(word in received for word in (b"waited", b"slept", b"span", b"here")):
            chunk = connection.recv(65536)
            assert chunk, f"no answer: {received!r}"
            received += chunk

    def shut_down(self) -> None:
        self.process.send_signal(signal.SIGTERM)


def client_cancels(python: Path, peer: str, tool: str) -> tuple[Stopwatch, float]:
    server = Stdio(python, peer, tool)
    server.cut = time.monotonic()
    server.send(line({"method": "notifications/cancelled", "params": {"requestId": 3, "reason": "bench"}}))
    server.call(4, {"name": "answer", "arguments": {}})
    return server, time.monotonic() if server.receive(4) else float("inf")


def time_out(python: Path, peer: str, tool: str) -> tuple[Stopwatch, float]:
    server = Stdio(python, peer, tool, TIMEOUT)
    server.cut = server.since + TIMEOUT
    return server, time.monotonic() if server.receive(3) else float("inf")


def disconnect(python: Path, peer: str, tool: str) -> tuple[Stopwatch, float]:
    server = Http(python, peer, tool)
    server.cut = time.monotonic()
    server.connection.close()
    with server.post({"name": "answer", "arguments": {}}) as connection:
        server.read(connection)
    return server, time.monotonic()


def interrupt(python: Path, peer: str, tool: str) -> tuple[Stopwatch, float]:
    server = Stdio(python, peer, tool)
    server.cut = time.monotonic()
    server.process.send_signal(signal.SIGINT)
    is_free = server.receive(3) or server.has_hung_up
    return server, time.monotonic() if is_free else float("inf")


CUTS: dict[str, Callable[[Path, str, str], tuple[Any, float]]] = dict(
    zip(WAYS, (client_cancels, time_out, disconnect, interrupt), strict=True)
)


def measure(python: Path, peer: str, tool: str, way: str) -> Figures:
    """Cut a call off; where its work goes on, once more, as the end of the process would end that."""
    is_ctrl_c = way == "Ctrl+C"
    server, free = CUTS[way](python, peer, tool)
    try:
        stopped = server.work_stopped(DEFAULT_TIMEOUT if is_ctrl_c else BRIEF)
        if is_ctrl_c:
            gone = server.ended() - server.cut
        elif stopped is not None:
            gone = end(server)
        else:
            again, _ = CUTS[way](python, peer, tool)
            try:
                gone = end(again)
            finally:
                again.close()
            stopped = server.work_stopped(DEFAULT_TIMEOUT)
        work = float("inf") if stopped is None else stopped - server.cut
        return Figures(free - server.cut, work, gone)
    finally:
        server.close()


def end(server: Any) -> float:
    """Shut a server down, and return how long it takes."""
    begin = time.monotonic()
    server.shut_down()
    return float(server.ended() - begin)


def shown(seconds: float) -> str:
    if seconds == float("inf"):
        return f"not in {DEFAULT_TIMEOUT:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(0.0, seconds) * 1000:.0f} ms"


def table(peers: Sequence[str], tools: Sequence[str], measured: dict[tuple[str, str, str], Figures]) -> str:
    """Return the markdown table."""
    head = ["tool", "cut off by", *(f"{peer}: {name}" for peer in peers for name in Figures._fields)]
    rows = [head, ["---"] * len(head)]
    for tool in tools:
        for way in WAYS:
            cells = [TOOLS[tool], way]
            for peer in peers:
                if (peer, way) in LACKING:
                    cells += ["has none"] * 3
                else:
                    cells += map(shown, measured[peer, tool, way])
            rows.append(cells)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="a CPython, as a version (3.13) or a path")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (%(default)s)")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this one; may be repeated")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only this one; may be repeated")
    options = parser.parse_args()
    python = environment.python_with_peers(environment.interpreter(options.python))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # servers must get it, also in the background
    peers, tools = options.peer or PEERS, options.tool or tuple(TOOLS)
    measured: dict[tuple[str, str, str], Figures] = {}
    for peer in peers:
        for tool in tools:
            for way in WAYS:
                if (peer, way) in LACKING:
                    continue
                print(f"measuring {peer}, {tool}, {way} ...", file=sys.stderr)
                rounds = [measure(python, peer, tool, way) for _ in range(options.rounds)]
                measured[peer, tool, way] = Figures(*map(max, zip(*rounds, strict=True)))
    print(table(peers, tools, measured))


if __name__ == "__main__":
    main()
