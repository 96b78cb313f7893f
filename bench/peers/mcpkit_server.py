"""mcpkit as an author writes it."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

import workload

from mcpkit import Server


def build(functions: list[Any], *, structured: bool = False) -> Server:
    server = Server("bench", version="1.0.0")
    for function in functions:
        server.tool(structured=structured)(function)
    return server


def connect(server: Server, revision: str) -> AbstractAsyncContextManager[Any]:
    from mcpkit.testing import connect as open_client

    return open_client(server, revision=revision)


async def call(client: Any, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call(name, arguments)
    return result.content[0]["text"]


async def count_tools(client: Any) -> int:
    return len(await client.list_tools())


def run(server: Server) -> None:
    server.run()


if __name__ == "__main__":
    functions, structured = workload.chosen(sys.argv)
    run(build(functions, structured=structured))
