"""The same with the official SDK."""

from __future__ import annotations

import sys

import payloads
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.mcpserver import Image, MCPServer
from serving import serve

server = MCPServer("large", log_level="WARNING")
server.middleware[:] = [each for each in server.middleware if not isinstance(each, OpenTelemetryMiddleware)]


@server.tool()
async def take(text: str) -> int:
    """Take a text, and return its length."""
    return len(text)


@server.tool()
async def give(kind: str, size: int) -> str:
    """Return a text."""
    return payloads.text(kind, size)


@server.tool()
async def give_image(size: int) -> Image:
    """Return an image."""
    return Image(data=payloads.image(size), format="png")


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve(server.streamable_http_app(json_response=True), int(sys.argv[2]))
    else:
        server.run("stdio")
