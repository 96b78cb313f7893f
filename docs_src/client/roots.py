import asyncio
from pathlib import Path

from mcpkit import Client
from server import server


async def main() -> None:
    async with Client(server, roots=[Path("/srv/maps")]) as client:
        print((await client.call_tool("folders")).data)
        client.roots = ["file:///srv/photos"]
        print((await client.call_tool("folders")).data)


asyncio.run(main())
