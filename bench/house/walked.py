"""The server of walks.py: notes which files of the package are entered while it is told to.

    python bench/house/walked.py stdio|http CONTROL BROKER [LISTENER]

The arguments are descriptors of sockets: CONTROL takes commands and gives answers, a line each; BROKER carries what
processes publish; LISTENER is where HTTP listens.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import mcpkit
from mcpkit import Context, Server
from mcpkit.storage import Memory

PACKAGE: Final = str(Path(mcpkit.__file__).parent) + "/"
QUIET: Final = 0.2
"""Seconds without a call in the package after which a walk has come to its end."""


class Walk:
    """The files of the package that are entered, in order of the first time."""

    def __init__(self) -> None:
        self.is_noted = False
        self.files: dict[str, None] = {}
        self.latest = 0.0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.latest = time.monotonic()
            if self.is_noted:
                self.files.setdefault(frame.f_code.co_filename.removeprefix(PACKAGE))

    def begin(self) -> None:
        self._settle()
        self.files.clear()
        self.is_noted = True

    def end(self) -> list[str]:
        self._settle()
        self.is_noted = False
        return list(self.files)

    def _settle(self) -> None:
        self.latest = time.monotonic()
        while time.monotonic() - self.latest < QUIET:
            time.sleep(QUIET / 4)


class Relayed(Memory):
    """A broker that several processes share: what one publishes comes back to all of them from the other end."""

    def __init__(self, other_end: socket.socket) -> None:
        super().__init__()
        self._other_end = other_end
        threading.Thread(target=self._hear, daemon=True).start()

    async def publish(self, topic: str, message: str) -> None:
        self._other_end.sendall(json.dumps([topic, message]).encode() + b"\n")

    def _hear(self) -> None:
        for line in self._other_end.makefile("rb"):
            with suppress(StopIteration):
                super().publish(*json.loads(line)).send(None)


def build(broker: Relayed) -> Server:
    """Return the server."""
    server = Server("walked", secret_key="walked " * 8, storage=broker)

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    async def greet(ctx: Context) -> str:
        """Ask the user for a name."""
        answer = await ctx.elicit("Who is it?", str)
        return f"Good morning, {answer.value}"

    @server.resource("walked://state")
    def state() -> str:
        """Return the state."""
        return "good"

    return server


def obey(control: socket.socket, walk: Walk, server: Server) -> None:
    """Serve the commands: begin, end, and change, which is the change from a thread."""
    for line in control.makefile("rb"):
        answer: object = None
        if line == b"begin\n":
            walk.begin()
        elif line == b"end\n":
            answer = walk.end()
        else:
            server.notify_resource_updated("walked://state")
        control.sendall(json.dumps(answer).encode() + b"\n")


def main() -> None:
    """Serve."""
    transport, *descriptors = sys.argv[1:]
    control, broker, *listener = (socket.socket(fileno=int(each)) for each in descriptors)
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    server = build(Relayed(broker))
    threading.Thread(target=obey, args=(control, walk, server), daemon=True).start()
    if transport == "stdio":
        server.run()
    else:
        import uvicorn

        uvicorn.Server(uvicorn.Config(server.asgi(), log_level="warning")).run(sockets=listener)


if __name__ == "__main__":
    main()
