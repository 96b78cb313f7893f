import asyncio

from mcpkit import ProtocolError
from mcpkit.testing import connect
from server import server


async def main() -> None:
    async with connect(server) as client:
        for word in ("bread", "milk", "bread", "milk"):
            try:
                result = await client.call_tool("translate", {"word": word})
                print(result.text)
            except ProtocolError as error:
                print(error)


asyncio.run(main())
