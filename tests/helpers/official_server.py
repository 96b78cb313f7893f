"""A server of the official SDK in this process."""

from __future__ import annotations

import logging
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context


def official_server() -> MCPServer:
    """Make one with two tools: `add`, and `steps`, which tells of its progress."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    server = MCPServer("official")
    root.setLevel(level)  # it sets up the logging of the whole process
    root.handlers[:] = handlers

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def steps(ctx: Context[Any]) -> str:
        for step in range(3):
            await ctx.report_progress(step + 1, 3)
        return "done"

    return server
