"""Subscriptions: listeners of changes, subscribed clients, a source to watch, and a server of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcpkit import Principal, Server
from mcpkit.identity.principals_and_scopes import ANYONE, Change
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import Ear, settle, updated


def listen(server: Server, *changes: Change | str, principal: Principal = ANYONE) -> Ear:
    """Return a listener of changes in this event loop; a string is the URI of a resource."""
    listener = Ear()
    listener.principal = principal
    for change in changes:
        server.engine.hub().subscribe(listener, updated(change) if isinstance(change, str) else change)
    return listener


@asynccontextmanager
async def subscribed(
    server: Server, revision: str, principal: Principal, *uris: str
) -> AsyncIterator[TestClient]:
    """Connect a client that is subscribed to resources, and to the lists of tools and resources."""
    async with connect(server, protocol_version=revision, principal=principal) as client:
        if revision == "2026-07-28":
            lists = {"resourcesListChanged": True, "toolsListChanged": True}
            params = {"notifications": {"resourceSubscriptions": list(uris), **lists}}
            stream = asyncio.ensure_future(client.request("subscriptions/listen", params))
            await client.notification("notifications/subscriptions/acknowledged")
            yield client
            stream.cancel()
        else:
            for uri in uris:
                await client.request("resources/subscribe", {"uri": uri})
            yield client


class Source:
    """Something to watch: each `update` lets the functions that watch yield once."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.story: list[str] = []
        self._waiting: list[asyncio.Future[Any]] = []

    async def _watch(self, name: Any) -> AsyncIterator[Any]:
        self.story.append(f"start {name}")
        self.running.append(name)
        try:
            while True:
                future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                yield await future
        finally:
            self.running.remove(name)
            self.story.append(f"stop {name}")

    async def fixed(self) -> AsyncIterator[Any]:
        async for update in self._watch("fixed"):
            yield update

    async def each(self, id: int) -> AsyncIterator[Any]:
        async for update in self._watch(id):
            yield update

    async def update(self, value: Any = None) -> None:
        await settle()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(value)
        await settle()

    async def fail(self) -> None:
        await settle()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_exception(OSError("the source is gone"))
        await settle()


def read() -> str:
    return ""


def station(id: int) -> str:
    return str(id)


def watched_server(source: Source) -> Server:
    """Return a server with a resource and a template that the source watches."""
    server = Server("s")
    server.resource("data://x", watch=source.fixed)(read)
    server.resource("data://stations/{id}", watch=source.each)(station)
    return server
