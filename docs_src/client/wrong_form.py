import asyncio

from mcpkit import Client
from server import server

WRONG = {"city": "Rome", "days": 90, "stile": "food"}


async def main() -> None:
    async with Client(server, elicitation_handler=lambda form: WRONG) as client:
        try:
            await client.call_tool("plan")
        except ValueError as error:
            print(error)


asyncio.run(main())
