"""The loop of a measured client: reads commands on standard input and prints how long each took.

A client has two methods: `call(name, arguments)` returns the text of the result, `list_tools()` the number of tools.
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
        if await client.call("add", ARGUMENTS) != TEXT:
            raise AssertionError("that is not the answer")


async def in_flight(client: Client, count: int) -> None:
    """Call, so many at a time."""
    await asyncio.gather(*(calls(client, count // IN_FLIGHT) for _ in range(IN_FLIGHT)))


async def lists(client: Client, count: int) -> None:
    """List 500 tools."""
    for _ in range(count):
        if await client.list_tools() != 500:
            raise AssertionError("those are not the tools")


COMMANDS: dict[str, Callable[[Client, int], Awaitable[None]]] = {
    "calls": calls,
    "in flight": in_flight,
    "lists": lists,
}


async def run_commands(client: Client, revision: str) -> None:
    """Run each command until standard input ends: `calls 500` is 500 calls; the printed times are for one of them."""
    write({"revision": revision})
    for line in sys.stdin:
        what, _, count = line.rpartition(" ")
        wall, processor = time.perf_counter(), time.process_time()
        await COMMANDS[what](client, int(count))
        write(
            {
                "wall": (time.perf_counter() - wall) / int(count),
                "processor": (time.process_time() - processor) / int(count),
                "resident": resident(),
            }
        )


def write(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def resident() -> float:
    """The resident memory of this process, in KiB."""
    status = Path("/proc/self/status").read_text()
    return float(status.partition("VmRSS:")[2].split()[0])
