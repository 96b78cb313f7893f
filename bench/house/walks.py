"""Walks through the house: the files of the package that a request passes, in the order in which it first does.

    python bench/house/walks.py
    python bench/house/walks.py --base ../other-checkout

A walk begins when its first byte is sent, and ends when nothing of the package runs any more. Each is made once before
it is noted, so that what is imported and made at the first use is in none. All threads of the server are noted, with
`sys.setprofile`; of another checkout, with the interpreter of its own `.venv`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from imports import ROOT

HANDSHAKE: Final = "2025-11-25"
STATELESS: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
CAPABILITIES: Final[dict[str, Any]] = {"elicitation": {"form": {}}}
GREETING: Final = {"action": "accept", "content": {"value": "Ada"}}

Message = dict[str, Any]
Walks = Iterator[tuple[str, list[str]]]


class Hub:
    """What processes share: each line that one of them sends comes back to all."""

    def __init__(self) -> None:
        self._ends: list[socket.socket] = []

    def join(self) -> socket.socket:
        """Return the end for one more process."""
        here, there = socket.socketpair()
        self._ends.append(here)
        threading.Thread(target=self._pass_on, args=(here,), daemon=True).start()
        return there

    def _pass_on(self, end: socket.socket) -> None:
        for line in end.makefile("rb"):
            for each in self._ends:
                each.sendall(line)


class Walked:
    """A server in a process of its own, and its client.

    Args:
        checkout: Where its package is.
        hub: What it shares with others.
        listener: Where it serves HTTP; None for stdio.
    """

    def __init__(self, checkout: Path, hub: Hub, listener: socket.socket | None = None) -> None:
        python = checkout / ".venv" / "bin" / "python"
        here, there = socket.socketpair()
        ends = [there, hub.join(), *([listener] if listener else [])]
        descriptors = [end.fileno() for end in ends]
        transport = "http" if listener else "stdio"
        self.process = subprocess.Popen(
            [
                str(python if python.exists() else sys.executable),
                str(Path(__file__).with_name("walked.py")),
                *[transport, *map(str, descriptors)],
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            pass_fds=descriptors,
        )
        for end in ends:
            end.close()
        self._control = here.makefile("rwb", buffering=0)
        self._id = 0

    def __enter__(self) -> Walked:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def tell(self, command: str) -> Any:
        """Give it a command, and return its answer."""
        self._control.write(command.encode() + b"\n")
        return json.loads(self._control.readline())

    def send(self, method: str, params: Message) -> int:
        """Send a request over stdio, and return its id."""
        self._id += 1
        self.write({"id": self._id, "method": method, "params": params})
        return self._id

    def write(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Message:
        assert self.process.stdout is not None
        message: Message = json.loads(self.process.stdout.readline())
        assert "error" not in message, message
        return message

    def shake_hands(self) -> None:
        info = {"name": "walks", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": CAPABILITIES, "clientInfo": info}
        self.send("initialize", params)
        self.read()
        self.write({"method": "notifications/initialized"})


def stateless(params: Message) -> Message:
    """Return params with what every request of the stateless era says."""
    meta = {META + "protocolVersion": STATELESS, META + "clientCapabilities": CAPABILITIES}
    return {**params, "_meta": meta}


ADD: Final = {"name": "add", "arguments": {"a": 1, "b": 2}}


def call(server: Walked) -> None:
    """Call a tool over stdio."""
    server.send("tools/call", ADD)
    assert server.read()["result"]["content"][0]["text"] == "3"


def call_over_http(port: int) -> None:
    """Call a tool in a POST that stands alone."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": stateless(ADD)})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": STATELESS,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "add",
    }
    connection.request("POST", "/mcp", body, headers)
    assert json.loads(connection.getresponse().read())["result"]["content"][0]["text"] == "3"
    connection.close()


def be_asked(server: Walked) -> None:
    """Call a tool that asks, in the handshake era: by a request the other way."""
    server.send("tools/call", {"name": "greet"})
    server.write({"id": server.read()["id"], "result": GREETING})
    assert server.read()["result"]["content"][0]["text"] == "Good morning, Ada"


def be_asked_again(server: Walked) -> None:
    """Call a tool that asks, in the stateless era: by an answer that wants the call again."""
    server.send("tools/call", stateless({"name": "greet"}))
    asked = server.read()["result"]
    answers = dict.fromkeys(asked["inputRequests"], GREETING)
    again = {"name": "greet", "inputResponses": answers, "requestState": asked["requestState"]}
    server.send("tools/call", stateless(again))
    assert server.read()["result"]["content"][0]["text"] == "Good morning, Ada"


@contextmanager
def noted(files: list[list[str]], *servers: Walked) -> Iterator[None]:
    """Note which files are passed in each of the servers."""
    for server in servers:
        server.tell("begin")
    yield
    files += [server.tell("end") for server in servers]


def walks(checkout: Path) -> Walks:
    """Yield the walks of a checkout: the title, and the files."""
    hub = Hub()
    found: list[list[str]] = []
    with ExitStack() as stack:
        here, there = (stack.enter_context(Walked(checkout, hub)) for _ in range(2))
        here.shake_hands()
        for title, walk in (("tools/call, stdio", call), (f"a question, {HANDSHAKE}", be_asked)):
            walk(here)
            with noted(found, here):
                walk(here)
            yield title, found.pop()
        be_asked_again(there)
        with noted(found, there):
            be_asked_again(there)
        yield f"a question, {STATELESS}", found.pop()
        there.send(
            "subscriptions/listen",
            stateless({"notifications": {"resourceSubscriptions": ["walked://state"]}}),
        )
        there.read()
        here.tell("change")
        there.read()
        with noted(found, here, there):
            here.tell("change")
            assert there.read()["params"]["uri"] == "walked://state"
        yield "a change, where a thread makes it", found[0]
        yield "a change, where a client of another process hears it", found[1]
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = stack.enter_context(Walked(checkout, hub, listener))
        call_over_http(port)
        found.clear()
        with noted(found, server):
            call_over_http(port)
        yield "tools/call, a stateless POST", found.pop()


def main() -> None:
    """Walk."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--base", type=Path, help="another checkout, whose walks stand before")
    options = parser.parse_args()
    checkouts: Sequence[Path] = [each for each in (options.base, options.checkout) if each is not None]
    for ways in zip(*(list(walks(each.resolve())) for each in checkouts), strict=True):
        for checkout, (title, files) in zip(checkouts, ways, strict=True):
            print(f"{title}: {len(files)} files" + (f" ({checkout})" if len(checkouts) > 1 else ""))
            print(*(f"    {file}" for file in files), sep="\n")


if __name__ == "__main__":
    main()
