"""fastmcp's client as its users write it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from command_loop import run_commands
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


class MeasuredClient:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        return (await self.client.call_tool(name, arguments)).content[0].text

    async def list_tools(self) -> int:
        return len(await self.client.list_tools())


async def main() -> None:
    transport, *target = sys.argv[1:]
    way = StdioTransport(target[0], target[1:]) if transport == "stdio" else target[0]
    async with Client(way) as client:
        await run_commands(MeasuredClient(client), client.protocol_version or "")


asyncio.run(main())
