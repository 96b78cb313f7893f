"""Something on this machine that nobody outside may reach: it notes whoever connects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Canary:
    """It listens on a free port of 127.0.0.1, reads nothing and hangs up.

    Attributes:
        heard: How often somebody has connected.
        port: Where it listens.
    """

    def __init__(self) -> None:
        self.heard = 0
        self.port = 0

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Note a connection, and hang up."""
        self.heard += 1
        writer.transport.abort()


@asynccontextmanager
async def listening() -> AsyncIterator[Canary]:
    """Let a canary listen until the end of the block."""
    canary = Canary()
    server = await asyncio.start_server(canary.hear, "127.0.0.1", 0)
    canary.port = server.sockets[0].getsockname()[1]
    try:
        yield canary
    finally:
        server.close()
        await server.wait_closed()
