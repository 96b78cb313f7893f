import asyncio

from mcpkit import Client
from server import server


async def main() -> None:
    async with Client(server.asgi()) as client:
        result = await client.call_tool(
            "forecast", {"city": "Oslo"}, progress=print
        )
        print(result.text)


asyncio.run(main())
