import asyncio

import httpx2

from mcpkit import Principal
from server import ADA, server

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "host", "version": "1"},
    },
}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Authorization": f"Bearer {ADA}",
}


async def main() -> None:
    app = server.asgi(public_url="https://mcp.example.com/mcp")
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app),
        base_url="https://mcp.example.com",
        headers=HEADERS,
    ) as http:
        print((await http.post("/mcp", json=HELLO)).status_code)
        await server.revoke(Principal("ada"))
        refused = await http.post("/mcp", json=HELLO)
        print(refused.status_code, refused.headers["WWW-Authenticate"])


asyncio.run(main())
