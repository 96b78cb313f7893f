"""The official Python SDK through its decorators: `MCPServer`, logging at WARNING, spans off."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

import workload
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.mcpserver import Context, MCPServer


def build(functions: list[Any], *, structured: bool = False) -> MCPServer:
    server = MCPServer("bench", version="1.0.0", log_level="WARNING")
    # "Turning it off" in the SDK's page on OpenTelemetry.
    server.middleware[:] = [
        each for each in server.middleware if not isinstance(each, OpenTelemetryMiddleware)
    ]
    for function in functions:
        server.tool(structured_output=structured)(function)
    return server


def connect(server: MCPServer, revision: str) -> AbstractAsyncContextManager[Any]:
    """Return the SDK's own in-memory client, in the mode that it has for the era."""
    from mcp import Client

    return Client(server, mode="legacy" if revision == "2025-11-25" else revision)


async def call(client: Any, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(name, arguments)
    return result.content[0].text


async def count_tools(client: Any) -> int:
    return len((await client.list_tools()).tools)


def asgi(server: MCPServer, mode: str) -> Any:
    """Return the app with `json_response=True`, which answers faster than an event stream for each call.

    Without it for streams and killed clients: as JSON it does not notice that a client has gone.
    """
    server.resource(workload.STATE, name="state")(workload.state)
    server.tool(structured_output=False)(workload.wait_for_hours)
    server.tool(structured_output=False)(workload.block)

    @server.tool(structured_output=False)
    async def touch(ctx: Context) -> str:
        """Send a notification that the state has changed."""
        await ctx.notify_resource_updated(workload.STATE)
        return "sent"

    if mode == "brief":
        return server.streamable_http_app(
            json_response=True, session_idle_timeout=workload.BRIEF, max_sessions=100_000
        )
    return server.streamable_http_app(json_response=mode != "streams", stateless_http=mode == "stateless")


def run(server: MCPServer) -> None:
    server.run("stdio")


if __name__ == "__main__":
    functions, structured = workload.chosen(sys.argv)
    run(build(functions, structured=structured))
