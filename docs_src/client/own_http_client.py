import asyncio

import httpx2

from mcpkit import Client
from running import running


async def main() -> None:
    limits = httpx2.Limits(max_connections=500)
    team = {"X-Team": "north"}
    async with (
        running() as url,
        httpx2.AsyncClient(headers=team, limits=limits) as http_client,
        Client(url, http_client=http_client) as client,
    ):
        result = await client.call_tool("forecast", {"city": "Bergen"})
        print(result.text)


asyncio.run(main())
