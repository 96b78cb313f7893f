"""The way of one call is short: at most ten Python frames of the package lie between the bytes and the author."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mcpkit
from mcpkit import Server
from mcpkit.engine.connection import Connection

PACKAGE = str(Path(mcpkit.__file__).parent)
LIMIT = 10

server = Server("frames")
seen: list[list[str]] = []


def package_frames(frame: FrameType | None) -> list[str]:
    """Name the package's frames on a stack, innermost first."""
    names = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


@server.tool
async def in_the_loop() -> str:
    seen.append(package_frames(sys._getframe()))
    return "done"


@server.tool
def in_a_thread() -> str:
    seen.append(package_frames(sys._getframe()))
    return "done"


@server.resource("frames://fixed")
async def fixed() -> str:
    seen.append(package_frames(sys._getframe()))
    return "done"


@server.resource("frames://{number}")
async def templated(number: int) -> str:
    seen.append(package_frames(sys._getframe()))
    return "done"


@server.prompt
async def asked() -> str:
    seen.append(package_frames(sys._getframe()))
    return "done"


async def frames_of(method: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Serve one request; return the frames on its way, over every hop to a task or a thread."""
    hops: list[list[str]] = []
    answered = asyncio.Event()
    connection = Connection(server, lambda message: answered.set())
    connection.receive(
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "frames", "version": "1"},
                },
            }
        ).encode()
    )
    answered.clear()

    def hop_of(original: Any) -> Any:
        def hop(*args: Any, **kwargs: Any) -> Any:
            # What waits here has handed the request on; what it called to do so is not on the way.
            hops.append(package_frames(sys._getframe()))
            return original(*args, **kwargs)

        return hop

    server.engine.runtime.threads._jobs = HoppingQueue(server.engine.runtime.threads._jobs, hops)  # type: ignore[assignment]
    if sys.version_info < (3, 12):  # later, the task starts on the same stack
        import mcpkit.calls.tasks

        monkeypatch.setattr(mcpkit.calls.tasks, "_start", hop_of(mcpkit.calls.tasks._start))
    seen.clear()
    try:
        connection.receive(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        )
        await asyncio.wait_for(answered.wait(), 10)
    finally:
        server.engine.runtime.threads._jobs = server.engine.runtime.threads._jobs.queue
        await connection.aclose()
    assert len(seen) == 1
    return [name for stack in [seen[0], *hops] for name in stack]


class HoppingQueue:
    """Notes the stack of whoever hands a job to a thread."""

    def __init__(self, queue: Any, hops: list[list[str]]) -> None:
        self.queue = queue
        self.hops = hops

    def put(self, job: Any) -> None:
        self.hops.append(package_frames(sys._getframe()))
        self.queue.put(job)

    def get(self, timeout: float) -> Any:
        return self.queue.get(timeout=timeout)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "in_the_loop"}),
        ("tools/call", {"name": "in_a_thread"}),
        ("resources/read", {"uri": "frames://fixed"}),
        ("resources/read", {"uri": "frames://7"}),
        ("prompts/get", {"name": "asked"}),
    ],
)
def test_at_most_ten_frames_lie_between_the_bytes_and_the_author(
    method: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = asyncio.run(frames_of(method, params, monkeypatch))
    assert "receive" in frames  # the count begins at the bytes
    assert len(frames) <= LIMIT, frames
