"""fastmcp: no banner, plain logging at WARNING, spans off."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

os.environ |= {
    "FASTMCP_LOG_LEVEL": "WARNING",
    "FASTMCP_ENABLE_RICH_LOGGING": "false",
    "FASTMCP_SHOW_SERVER_BANNER": "false",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "FASTMCP_TELEMETRY_MODE": "off",
}

import workload
from fastmcp import FastMCP


def build(functions: list[Any], *, structured: bool = False) -> FastMCP:
    server = FastMCP("bench", version="1.0.0")
    for function in functions:
        if structured:
            server.tool(function)
        else:
            server.tool(function, output_schema=None)
    return server


def connect(server: FastMCP, revision: str) -> AbstractAsyncContextManager[Any]:
    """Return fastmcp's own in-memory client, in the mode that it has for the era."""
    from fastmcp import Client

    return Client(server, mode="legacy" if revision == "2025-11-25" else revision)


async def call(client: Any, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(name, arguments)
    return result.content[0].text


async def count_tools(client: Any) -> int:
    return len(await client.list_tools())


def asgi(server: FastMCP, mode: str) -> Any:
    """Return the app with `json_response=True`, which answers faster than an event stream for each call."""
    return server.http_app(json_response=True, stateless_http=mode == "stateless")


def run(server: FastMCP) -> None:
    server.run("stdio", show_banner=False)


if __name__ == "__main__":
    functions, structured = workload.chosen(sys.argv)
    run(build(functions, structured=structured))
