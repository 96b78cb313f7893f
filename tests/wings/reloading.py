"""A toy of reloading: the pipe of a host stays, and another server answers at its end."""

from __future__ import annotations

from contextlib import AsyncExitStack

from mcpkit import Server
from mcpkit.transports import Connection


class Reloader:
    """Serves one pipe by one server after the other."""

    def __init__(self, connection: Connection, server: Server) -> None:
        self._connection = connection
        self._first = server
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Reloader:
        await self._stack.enter_async_context(self._first.running())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.aclose()
        await self._stack.aclose()

    async def reload(self, server: Server) -> None:
        """Let another server answer from now on; what the one before has begun it ends."""
        stack = AsyncExitStack()
        await stack.enter_async_context(server.running())
        await self._connection.move(server)
        await self._stack.aclose()
        self._stack = stack
