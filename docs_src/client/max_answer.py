import asyncio

from mcpkit import Client
from mcpkit.exceptions import TransportError
from running import running


async def main() -> None:
    async with running() as url, Client(url, max_answer=200_000) as client:
        result = await client.call_tool("history", {"years": 30})
        print(len(result.text))
        try:
            await client.call_tool("history", {"years": 60}, retry=True)
        except TransportError as error:
            print(error)


asyncio.run(main())
