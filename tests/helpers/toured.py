"""A server that does all that a transport has to carry, and a client's tour of it."""

from __future__ import annotations

import asyncio
from typing import Any

from mcpkit import Context, Server
from mcpkit.client.client import Client
from mcpkit.client.link.transport import Transport
from tests.helpers.raw_client import within

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
FIRST_WITH_FORMS = "2025-06-18"
FIRST_STATELESS = "2026-07-28"
CHANGED = "notifications/tools/list_changed"


class Toured:
    """A server, and what it sees of its clients.

    Attributes:
        waiting: Set when a call waits.
        cancelled: Set when that call has been cancelled.
    """

    def __init__(self) -> None:
        self.server = server = Server("toured", version="1.0.0")
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()

        @server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @server.tool
        async def steps(ctx: Context) -> str:
            for step in range(3):
                await ctx.progress(step + 1, 3)
            return "done"

        @server.tool
        async def greet(ctx: Context) -> str:
            name = await ctx.elicit("Who are you?", str)
            return f"Hello, {name.value}!"

        @server.tool
        async def headers(name: str, ctx: Context) -> str | None:
            value = (ctx.headers or {}).get(name)
            return None if value is None else str(value)

        @server.tool
        async def large(size: int) -> str:
            return "x" * size

        @server.tool
        async def wait() -> None:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

    def grow(self) -> None:
        """Get one more tool, of which clients are told."""

        @self.server.tool
        async def more() -> None: ...


class Heard:
    """The notifications that a client hears.

    Args:
        client: The client.
    """

    def __init__(self, client: Client) -> None:
        self._methods: asyncio.Queue[str] = asyncio.Queue()
        client._link.listeners.add(lambda method, _: self._methods.put_nowait(method))

    async def until(self, method: str) -> None:
        """Wait for one."""
        while await within(self._methods.get()) != method:
            pass


async def tour(transport: Transport, revision: str, toured: Toured | None = None) -> None:
    """Use a server in each way that a transport has to carry, and close the client.

    Args:
        transport: The way to a server as `Toured` makes it.
        revision: The revision to speak.
        toured: The server where it is in this event loop: then it is seen that cancellation reaches it, and changes
            the client.
    """
    async with Client(transport, revision=revision, elicit=lambda form: "Ola") as client:
        assert client.revision == revision
        assert len(await client.list_tools()) == 6
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
        told: list[Any] = []
        result = await client.call("steps", progress=lambda *progress: told.append(progress))
        assert (result.text, told) == ("done", [(1, 3, None), (2, 3, None), (3, 3, None)])
        if revision >= FIRST_WITH_FORMS:
            assert (await client.call("greet")).text == "Hello, Ola!"
        sizes = [10, 100_000, 1_000_000]
        results = await asyncio.gather(*(client.call("large", {"size": size}) for size in sizes))
        assert [len(result.text) for result in results] == sizes
        if toured is not None:
            await _see_a_cancellation(client, toured)
            await _see_a_change(client, revision, toured)


async def _see_a_cancellation(client: Client, toured: Toured) -> None:
    calling = asyncio.ensure_future(client.call("wait"))
    await within(toured.waiting.wait())
    assert not toured.cancelled.is_set()
    calling.cancel()
    await within(toured.cancelled.wait())


async def _see_a_change(client: Client, revision: str, toured: Toured) -> None:
    heard = Heard(client)
    listening: asyncio.Future[Any] | None = None
    if revision >= FIRST_STATELESS:
        wanted = {"notifications": {"toolsListChanged": True}}
        listening = asyncio.ensure_future(client.request("subscriptions/listen", wanted))
        await heard.until("notifications/subscriptions/acknowledged")
    toured.grow()
    await heard.until(CHANGED)
    if listening is not None:
        listening.cancel()
