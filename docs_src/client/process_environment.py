import asyncio

from mcpkit import Client


async def main() -> None:
    environment = {"UNITS": "metric"}
    async with Client("server.py", env=environment) as client:
        print((await client.call_tool("settings")).text)


asyncio.run(main())
