"""The client of the official SDK as its users write it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from command_loop import run_commands
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


class MeasuredClient:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        return (await self.client.call_tool(name, arguments)).content[0].text

    async def list_tools(self) -> int:
        return len((await self.client.list_tools()).tools)


async def main() -> None:
    transport, *target = sys.argv[1:]
    command = StdioServerParameters(command=target[0], args=target[1:])
    async with Client(stdio_client(command) if transport == "stdio" else target[0]) as client:
        await run_commands(MeasuredClient(client), client.protocol_version)


asyncio.run(main())
