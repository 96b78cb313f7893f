"""A server whose tools change what it has, over whatever serves it.

Run as a program it serves over standard input and output; `official` makes one of the official SDK.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from mcpkit import Server


def changing_server(secret: str | None = None) -> Server:
    """Make one: `change` adds a tool and updates `x://a`; `end` ends its process."""
    server = Server("changing", secret=secret)
    count = iter(range(1000))

    @server.resource("x://a")
    def a() -> str:
        return "text"

    @server.tool
    async def change() -> None:
        server.tool(name=f"added{next(count)}")(a)
        server.resource_updated("x://a")

    @server.tool
    async def end() -> None:
        os._exit(3)

    return server


def official() -> Any:
    """Make one of the official SDK that tells of the same in both eras."""
    import mcp_types as types
    from mcp.server.lowlevel import Server as OfficialServer
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
    from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

    bus = InMemorySubscriptionBus()
    subscribed: set[str] = set()

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("change", "end")]
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        if params.name == "end":
            os._exit(3)
        await bus.publish(ToolsListChanged())
        await bus.publish(ResourceUpdated(uri="x://a"))
        if context.session.protocol_version < "2026":
            await context.session.send_tool_list_changed()
            if "x://a" in subscribed:
                await context.session.send_resource_updated("x://a")
        return types.CallToolResult(content=[])

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri="x://a", name="a")])

    async def subscribe(_: Any, params: Any) -> types.EmptyResult:
        subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(_: Any, params: Any) -> types.EmptyResult:
        subscribed.discard(str(params.uri))
        return types.EmptyResult()

    return OfficialServer(
        "official",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
    )


async def _serve_official() -> None:
    from mcp.server.lowlevel import NotificationOptions
    from mcp.server.stdio import stdio_server

    server = official()
    async with stdio_server() as (reading, writing):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(reading, writing, options)


if __name__ == "__main__":
    if sys.argv[1:] == ["official"]:
        import anyio

        anyio.run(_serve_official)
    else:
        changing_server().run()
