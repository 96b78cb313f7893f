import asyncio

from mcpkit.testing import connect
from server import server


async def main() -> None:
    async with connect(server) as client:
        arguments = {"amount": 10, "currency": "NOK"}
        calls = [client.call_tool("convert", arguments) for _ in range(20)]
        results = await asyncio.gather(*calls)
        print(len(results), "calls,", results[0].text)
        read = await client.request("resources/read", {"uri": "rates://all"})
        print(read["contents"][0]["text"], read["ttlMs"], read["cacheScope"])


asyncio.run(main())
