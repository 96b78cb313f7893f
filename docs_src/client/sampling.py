import asyncio

from mcpkit import Client
from mcpkit.client import SampleRequest
from server import server


async def generate(request: SampleRequest) -> str:
    """Stand in for a model."""
    return f"{request.text} Great! ({request.max_tokens} tokens at most)"


async def main() -> None:
    async with Client(server, sampling_handler=generate) as client:
        result = await client.call_tool("praise", {"city": "Oslo"})
        print(result.text)


asyncio.run(main())
