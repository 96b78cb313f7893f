"""mcpkit's client as its users write it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from asking import take_turns

from mcpkit import Client


class Asker:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        return (await self.client.call_tool(name, arguments)).text

    async def list_tools(self) -> int:
        return len(await self.client.list_tools())


async def main() -> None:
    transport, *target = sys.argv[1:]
    async with Client(target if transport == "stdio" else target[0]) as client:
        await take_turns(Asker(client), client.protocol_version)


asyncio.run(main())
