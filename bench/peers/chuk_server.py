"""chuk-mcp-server: its stdio transport, logging at WARNING, debug off."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import wraps
from typing import Any

import workload
from chuk_mcp_server import ChukMCPServer

SUM_SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "total": {"type": "number"}},
    "required": ["label", "total"],
}


def build(functions: list[Any], *, structured: bool = False) -> ChukMCPServer:
    server = ChukMCPServer("bench", version="1.0.0", debug=False, transport="stdio")
    for function in functions:
        if structured:
            server.tool(output_schema=SUM_SCHEMA)(_as_dict(function))
        else:
            server.tool(function)
    return server


def _as_dict(function: Any) -> Any:
    """Return `function` answering with the dict that this library wants for structured content."""

    @wraps(function)
    async def wrapped(**arguments: Any) -> dict[str, Any]:
        return asdict(await function(**arguments))

    return wrapped


@asynccontextmanager
async def connect(server: ChukMCPServer, revision: str) -> AsyncIterator[Any]:
    """Open the library's `ToolRunner`: it calls the protocol handler with dicts, nothing is encoded."""
    from chuk_mcp_server.testing import ToolRunner

    del revision  # the handshake era is the only one it speaks
    yield ToolRunner(server)


async def call(client: Any, name: str, arguments: dict[str, Any]) -> str:
    answer = await client.call_tool(name, arguments)
    return answer["result"]["content"][0]["text"]


async def count_tools(client: Any) -> int:
    """Follow the pages: 100 tools are all that this library puts into one answer."""
    count, params = 0, {}
    while True:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
        answer, _ = await client.protocol.handle_request(request)
        count += len(answer["result"]["tools"])
        if "nextCursor" not in answer["result"]:
            return count
        params = {"cursor": answer["result"]["nextCursor"]}


def asgi(server: ChukMCPServer, mode: str) -> Any:
    """Return the app of its HTTP transport; logging at ERROR, because it logs each request as a warning."""
    from chuk_mcp_server.http_server import create_server

    del mode
    logging.disable(logging.WARNING)
    return create_server(server.protocol).app


def run(server: ChukMCPServer) -> None:
    server.run_stdio(debug=False, log_level="warning")


if __name__ == "__main__":
    functions, structured = workload.chosen(sys.argv)
    run(build(functions, structured=structured))
