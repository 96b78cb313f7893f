"""mcpkit as an author writes it."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

import workload

from mcpkit import Limits, ResultOptions, Server, Timeouts


def build(functions: list[Any], *, structured: bool = False) -> Server:
    server = Server("bench", version="1.0.0")
    for function in functions:
        server.tool(result=ResultOptions(structured=structured))(function)
    return server


def connect(server: Server, revision: str) -> AbstractAsyncContextManager[Any]:
    from mcpkit.testing import connect as open_client

    return open_client(server, protocol_version=revision)


async def call(client: Any, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(name, arguments)
    return result.content[0]["text"]


async def count_tools(client: Any) -> int:
    return len(await client.list_tools())


def asgi(server: Server, mode: str) -> Any:
    """Return the app; what the figures on streams and endurance need stands beside the usual tools."""
    server.resource(workload.STATE, name="state")(workload.state)
    server.tool(workload.wait_for_hours)
    server.tool(workload.block)

    @server.tool(result=ResultOptions(structured=False))
    async def touch() -> str:
        """Send a notification that the state has changed."""
        server.notify_resource_updated(workload.STATE)
        return "sent"

    if mode == "brief":
        from mcpkit.transports.http.app_options import Settings
        from mcpkit.transports.http.asgi import HttpApp

        limits, timeouts = Limits(max_sessions=100_000), Timeouts(session_idle=workload.BRIEF)
        return HttpApp(server.engine, Settings(limits, timeouts))
    return server.asgi(stateless=mode == "stateless")


def run(server: Server) -> None:
    server.run()


if __name__ == "__main__":
    functions, structured = workload.chosen(sys.argv)
    run(build(functions, structured=structured))
