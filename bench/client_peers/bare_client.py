"""No client: a POST for each call by httpx2, which the clients over HTTP use, and its body read as JSON."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import httpx2
from command_loop import run_commands

REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class BareClient:
    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client = client
        self.url = url
        self.id = 0

    async def ask(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> Any:
        self.id += 1
        response = await self.client.post(
            self.url,
            json={"jsonrpc": "2.0", "id": self.id, "method": method, "params": {**params, "_meta": META}},
            headers={
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": REVISION,
                "Mcp-Method": method,
                **headers,
            },
        )
        return response.json()["result"]

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self.ask("tools/call", {"name": name, "arguments": arguments}, {"Mcp-Name": name})
        return str(result["content"][0]["text"])

    async def list_tools(self) -> int:
        return len((await self.ask("tools/list", {}, {}))["tools"])


async def main() -> None:
    async with httpx2.AsyncClient() as client:
        await run_commands(BareClient(client, sys.argv[2]), REVISION)


asyncio.run(main())
