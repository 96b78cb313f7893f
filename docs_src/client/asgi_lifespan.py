import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from mcpkit import Client


@asynccontextmanager
async def connected(app: Starlette) -> AsyncIterator[None]:
    """Connect to a database that is not there."""
    raise ConnectionRefusedError("no database at port 5432")
    yield


async def main() -> None:
    try:
        async with Client(Starlette(lifespan=connected)):
            pass
    except ConnectionError as error:
        print(error)


asyncio.run(main())
