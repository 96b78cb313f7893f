import asyncio

from mcpkit.testing import connect
from server import server


def test_find_book_returns_its_shelf() -> None:
    async def run() -> None:
        async with connect(server) as client:
            result = await client.call_tool("find_book", {"title": "Emma"})
            assert result.data == {"title": "Emma", "shelf": 3}

    asyncio.run(run())
