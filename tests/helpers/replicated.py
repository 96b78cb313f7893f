"""Replicas of one server: apps in this process, each with an engine of its own that leads to the same place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from mcpkit import Server
from mcpkit.storage import Memory
from tests.helpers.engines import Engine, close, make_engine
from tests.helpers.pipe import settle
from tests.helpers.raw_client import Client, lifespan
from tests.helpers.serving import AT_ONCE, app_of

REPLICAS = 3


@contextmanager
def engines(name: str, folder: Path, count: int = REPLICAS) -> Iterator[list[Engine]]:
    """Make an engine for each replica; in memory it can only be the same one."""
    made = [make_engine(name, folder)]
    for _ in range(count - 1):
        made.append(made[0] if isinstance(made[0], Memory) else make_engine(name, folder))
    yield made
    for each in made:
        close(each)


@asynccontextmanager
async def replicas(servers: Sequence[Server], folder: Path) -> AsyncIterator[list[Client]]:
    """Serve all of them, and give a client of each; when they have been shut down, nothing may be left.

    Args:
        servers: The servers.
        folder: Where the schemas are.
    """
    before = asyncio.all_tasks()
    clients = [Client(app_of(server, timeouts=AT_ONCE), folder) for server in servers]
    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(lifespan(client.app))
        try:
            yield clients
        finally:
            for client in clients:
                await client.aclose()
    await settle()
    assert asyncio.all_tasks() - before == set()
