"""mcpkit's client as its users write it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from command_loop import run_commands

from mcpkit import Client


class MeasuredClient:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        return (await self.client.call_tool(name, arguments)).text

    async def list_tools(self) -> int:
        return len(await self.client.list_tools())


async def main() -> None:
    transport, *target = sys.argv[1:]
    async with Client(target if transport == "stdio" else target[0]) as client:
        await run_commands(MeasuredClient(client), client.protocol_version)


asyncio.run(main())
