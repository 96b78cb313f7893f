import asyncio
import subprocess

from mcpkit import Client
from mcpkit.exceptions import OutcomeUnknownError, TransportError


async def main() -> None:
    async with Client("server.py", stderr=subprocess.DEVNULL) as client:
        try:
            await client.call_tool("forecast", {"city": "Atlantis"})
        except OutcomeUnknownError as error:
            print(error.__cause__)
        result = await client.call_tool("forecast", {"city": "Bergen"})
        print(result.text)
    try:
        async with Client(["no-such-server"], env={"PATH": "/usr/bin"}):
            pass
    except TransportError as error:
        print(error)


asyncio.run(main())
