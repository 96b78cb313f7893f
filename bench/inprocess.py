"""Runs in a peer's interpreter and measures what needs no pipe."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import workload


def register(peer: Any, count: int) -> float:
    functions = workload.many(count)
    start = time.perf_counter()
    peer.build(functions)
    return time.perf_counter() - start


async def calls(peer: Any, client: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        await peer.call(client, "add", workload.ARGUMENTS)
    return time.perf_counter() - start


async def lists(peer: Any, client: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        await peer.count_tools(client)
    return time.perf_counter() - start


async def serve(peer: Any, revision: str, tools: int) -> None:
    """Hold one client open: a line of stdin is `{"figure", "count"}`, one of stdout the seconds it took."""
    functions = workload.many(tools) if tools else [workload.add, workload.add_sync]
    async with peer.connect(peer.build(functions), revision) as client:
        if tools:
            assert await peer.count_tools(client) == tools
        else:
            assert await peer.call(client, "add", workload.ARGUMENTS) == workload.TEXT
        print(json.dumps("ready"), flush=True)
        figures = {"calls": calls, "lists": lists}
        # Blocking the loop between rounds is harmless: nothing runs there meanwhile.
        for request in sys.stdin:
            wanted = json.loads(request)
            print(json.dumps(await figures[wanted["figure"]](peer, client, wanted["count"])), flush=True)


def main(name: str, figure: str, revision: str, tools: str) -> None:
    peer = importlib.import_module(name)
    if figure == "register":
        print(json.dumps(register(peer, int(tools))))
    else:
        asyncio.run(serve(peer, revision, int(tools)))


if __name__ == "__main__":
    main(*sys.argv[1:])
