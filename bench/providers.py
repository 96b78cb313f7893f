"""Measures lists and calls of registered components, of ten static providers, and of a dynamic provider.

    python bench/providers.py

Bars: static providers with five transforms cost at most 5 % more than registered components. An unchanged dynamic list
of 1,000 tools costs at most twice as much, from Python 3.12 on, where a task takes its first step at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from mcpkit import Context, Provider, Server, Tool
from mcpkit.providers.provider_and_transforms import Kind, Prefix, Transform
from mcpkit.transports import Connection

TOOLS = 1000
ROUNDS = 9
REQUESTS = 300
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


async def number(a: int = 1) -> int:
    """Return a number."""
    return a


class Static(Provider):
    kinds = frozenset({"tools"})

    def __init__(self, first: int, count: int) -> None:
        self.tools = tuple(Tool(number, name=f"t{index}") for index in range(first, first + count))

    def snapshot(self, kind: Kind) -> Any:
        return self.tools


class Dynamic(Static):
    def snapshot(self, kind: Kind) -> None:
        return None

    async def list(self, kind: Kind, ctx: Context) -> Any:
        return self.tools


def servers() -> dict[str, tuple[Server, str]]:
    """Return the servers by name, each with the name of one tool."""
    registered, static, dynamic = Server("registered"), Server("static"), Server("dynamic")
    for tool in Static(0, TOOLS).tools:
        registered.catalog.add(tool)
    for part in range(10):
        transforms = [Transform(), Prefix("x"), Transform(), Prefix(f"p{part}"), Transform()]
        static.catalog.include(Static(part * TOOLS // 10, TOOLS // 10), transforms)
    dynamic.include(Dynamic(0, TOOLS))
    return {"registered": (registered, "t555"), "static": (static, "p5_x_t555"), "dynamic": (dynamic, "t555")}


async def microseconds(server: Server, method: str, params: dict[str, Any]) -> float:
    """Return the time of a request without a pipe, the best of several rounds."""
    responses: list[Any] = []
    connection = Connection(server, responses.append)
    requests = [
        json.dumps(
            {"jsonrpc": "2.0", "id": index, "method": method, "params": {**params, "_meta": META}}
        ).encode()
        for index in range(REQUESTS)
    ]
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for request in requests:
            connection.receive(request)
            while not responses:
                await asyncio.sleep(0)
            responses.pop()
        best = min(best, (time.perf_counter() - start) / REQUESTS)
    await connection.aclose()
    return best * 1e6


async def main() -> None:
    for name, (server, tool) in servers().items():
        lists = await microseconds(server, "tools/list", {})
        calls = await microseconds(server, "tools/call", {"name": tool, "arguments": {}})
        print(f"{name:12} list {lists:6.1f} us, call {calls:6.1f} us")


if __name__ == "__main__":
    asyncio.run(main())
