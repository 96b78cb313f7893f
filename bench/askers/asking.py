"""What every client is told to do on its standard input, one line for each turn, and how long it took.

A client imports nothing before `measured` has begun, and has to have, beside its name: `call(name, arguments)`, which
returns the text, and `list_tools()`, which returns how many there are.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

ARGUMENTS = {"first": 40, "second": 2.5, "label": "sum"}
TEXT = "sum: 42.5"
IN_FLIGHT = 64


class Client(Protocol):
    """A client that is connected."""

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool and return its text."""
        ...

    async def list_tools(self) -> int:
        """List the tools and return how many there are."""
        ...


async def calls(client: Client, count: int) -> None:
    """Call, one after the other."""
    for _ in range(count):
        if await client.call_tool("add", ARGUMENTS) != TEXT:
            raise AssertionError("that is not the answer")


async def in_flight(client: Client, count: int) -> None:
    """Call, so many at a time."""
    await asyncio.gather(*(calls(client, count // IN_FLIGHT) for _ in range(IN_FLIGHT)))


async def lists(client: Client, count: int) -> None:
    """List 500 tools."""
    for _ in range(count):
        if await client.list_tools() != 500:
            raise AssertionError("those are not the tools")


TURNS: dict[str, Callable[[Client, int], Awaitable[None]]] = {
    "calls": calls,
    "in flight": in_flight,
    "lists": lists,
}


async def take_turns(client: Client, revision: str) -> None:
    """Do what the lines say until they end: `calls 500`. The answers are for one of so many."""
    say({"revision": revision})
    for line in sys.stdin:
        what, _, count = line.rpartition(" ")
        wall, processor = time.perf_counter(), time.process_time()
        await TURNS[what](client, int(count))
        say(
            {
                "wall": (time.perf_counter() - wall) / int(count),
                "processor": (time.process_time() - processor) / int(count),
                "resident": resident(),
            }
        )


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def resident() -> float:
    """The resident memory of this process, in KiB."""
    status = Path("/proc/self/status").read_text()
    return float(status.partition("VmRSS:")[2].split()[0])
