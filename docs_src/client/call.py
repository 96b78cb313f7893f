import asyncio

from mcpkit import Client
from running import running


async def main() -> None:
    async with running() as url, Client(url) as client:
        result = await client.call_tool(
            "forecast", {"city": "Oslo"}, progress=print
        )
        print(result.text)


asyncio.run(main())
