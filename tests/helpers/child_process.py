"""A receiver for a client's stdio transport, scripts that it starts, and what they leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from mcpkit.client.transports.processes.stdio import StdioTransport
from mcpkit.protocol.client import OutgoingMessage

DEFAULT_TIMEOUT = 30.0

ECHO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]}), flush=True)
"""
"""A server that answers with the params, and ends with its input."""


def script(code: str) -> list[str]:
    """The command of a script."""
    return [sys.executable, "-c", code]


class Received:
    """A receiver that keeps what comes."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.error: Exception | None = None
        self.pending: set[Any] = set()
        self._changed = asyncio.Event()

    def receive(self, line: bytes, request_id: object = None) -> None:
        self.messages.append(json.loads(line))
        self._changed.set()

    def is_pending(self, id_: Any) -> bool:
        return id_ in self.pending

    def fail(self, id_: Any, error: Exception) -> None:
        self.messages.append((id_, error))
        self._changed.set()

    def connection_lost(self, error: Exception) -> None:
        assert self.error is None, "it is lost only once"
        self.error = error
        self._changed.set()

    async def next(self) -> Any:
        """Wait for the next message."""
        await self._until(lambda: self.messages or self.error)
        assert self.messages, self.error
        return self.messages.pop(0)

    async def end(self) -> Exception:
        """Wait until it is lost, and say why."""
        await self._until(lambda: self.error)
        assert self.error is not None
        return self.error

    async def _until(self, condition: Any) -> None:
        while not condition():
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), DEFAULT_TIMEOUT)


def request(id_: int, **params: Any) -> OutgoingMessage:
    """A request."""
    message = {"jsonrpc": "2.0", "id": id_, "method": "echo", "params": params}
    outgoing = OutgoingMessage()
    outgoing.line = json.dumps(message).encode()
    outgoing.id = id_
    return outgoing


async def send(transport: StdioTransport, id_: int, **params: Any) -> None:
    """Send a request, and wait where more may not be sent."""
    sending = transport.send(request(id_, **params))
    if sending is not None:
        await sending


async def ask(transport: StdioTransport, received: Received, id_: int, **params: Any) -> Any:
    """Send a request to a server that answers in order, and return its result."""
    await send(transport, id_, **params)
    answer = await received.next()
    assert answer["id"] == id_
    return answer["result"]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not buried does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def descriptors() -> set[str]:
    """The open descriptors of this process, and what they are."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:  # the listing's own
            continue
    return found


def held() -> set[str]:
    """What this process holds: descriptors, child processes and threads.

    What other tests have left to the garbage collector may go at any time: what is left over is what has come, and
    `held() <= before` where nothing is.
    """
    threads = {f"thread {thread.name}" for thread in threading.enumerate()}
    return descriptors() | {f"child {pid}" for pid in children()} | threads


def children() -> set[int]:
    """The children of this process, those that were not buried among them."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        found |= {int(pid) for pid in Path(f"/proc/self/task/{task}/children").read_text().split()}
    return found
