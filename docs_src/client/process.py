import asyncio

from mcpkit import Client


def log(line: str) -> None:
    print("server:", line)


async def main() -> None:
    async with Client("server.py", stderr=log) as client:
        result = await client.call_tool("forecast", {"city": "Oslo"})
        print(result.text)


asyncio.run(main())
