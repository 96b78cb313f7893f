"""Sends the corpus of wrong arguments to the server of one library, in memory: `corpus_peer.py mcpkit < calls.json`.

Each server is as an author writes it, without settings. It prints one answer for each call: `{"ran": text}`,
`{"refused": text}` for a result that is an error, `{"failed": text}` for anything else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from corpus_tools import TOOLS

from mcpkit import ResultOptions

Answer = dict[str, str]


async def ask_mcpkit(calls: list[Any]) -> list[Answer]:
    from mcpkit import Server
    from mcpkit.testing import connect

    server = Server("corpus")
    for tool in TOOLS:
        server.tool(result=ResultOptions(structured=False))(tool)
    async with connect(server) as client:
        return [await answer(client.call_tool(name, arguments)) for name, arguments in calls]


async def ask_mcp(calls: list[Any]) -> list[Answer]:
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("corpus")
    for tool in TOOLS:
        server.tool(structured_output=False)(tool)
    async with Client(server) as client:
        return [await answer(client.call_tool(name, arguments)) for name, arguments in calls]


async def ask_fastmcp(calls: list[Any]) -> list[Answer]:
    from fastmcp import Client, FastMCP

    server = FastMCP("corpus")
    for tool in TOOLS:
        server.tool(tool, output_schema=None)
    async with Client(server) as client:
        return [
            await answer(client.call_tool(name, arguments, raise_on_error=False)) for name, arguments in calls
        ]


async def answer(call: Any) -> Answer:
    try:
        result = await call
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    block = result.content[0]
    text = block["text"] if isinstance(block, dict) else block.text
    return {"refused" if result.is_error else "ran": text}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    ask = {"mcpkit": ask_mcpkit, "mcp": ask_mcp, "fastmcp": ask_fastmcp}[sys.argv[1]]
    print(json.dumps(asyncio.run(ask(json.load(sys.stdin)))))
