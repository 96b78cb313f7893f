import asyncio

from fastapi import FastAPI

from mcpkit import Client
from server import server

api = FastAPI()
api.mount("/weather", server.asgi())


async def main() -> None:
    async with Client(api, path="/weather/mcp") as client:
        result = await client.call_tool("forecast", {"city": "Bergen"})
        print(result.text)


asyncio.run(main())
