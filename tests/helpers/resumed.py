"""A server whose streams clients come back to, and what the tests do with those."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcpkit import Context, Memory, Server, Sqlite
from tests.helpers.asgi_answer import Answer, Event
from tests.helpers.asgi_client import Session

OLDER = ["2025-03-26", "2025-06-18"]
"""Revisions whose clients do not come back."""
SECRET = "a secret of sixteen bytes and more"


class Steps:
    """Lets a tool take one step at a time."""

    def __init__(self) -> None:
        self.turns: asyncio.Queue[str] = asyncio.Queue()
        self.taken: asyncio.Queue[str] = asyncio.Queue()

    async def take(self, *names: str) -> None:
        for name in names:
            self.turns.put_nowait(name)
            assert await asyncio.wait_for(self.taken.get(), 10) == name


def make_server(steps: Steps, shared: Memory | Sqlite | None = None) -> Server:
    server = Server("resumed", version="1", secret=SECRET, shared=shared)

    @server.tool
    async def tell(ctx: Context) -> str:
        """Log what it is given, one by one, and return at `end`."""
        while (name := await steps.turns.get()) != "end":
            if name == "close":
                await ctx.close_stream()
            else:
                await ctx.log("warning", name)
            steps.taken.put_nowait(name)
        steps.taken.put_nowait(name)
        return "the end"

    @server.tool
    async def count(ctx: Context, times: int, size: int = 1) -> str:
        for number in range(times):
            await ctx.log("warning", f"{number} " + "x" * size)
        return "counted"

    @server.resource("resumed://{name}")
    async def any_resource(name: str) -> str:
        return name

    return server


def message_of(event: Event | None) -> Any:
    assert event is not None
    return json.loads(event.data or "null")


def said(messages: list[Any]) -> list[str]:
    return [
        message["params"]["data"] if "method" in message else message["result"]["content"][0]["text"]
        for message in messages
    ]


async def priming(answer: Answer) -> Event:
    event = await answer.event()
    assert event is not None
    return event


async def subscribe(session: Session, *names: str) -> None:
    for name in names:
        await session.ask("resources/subscribe", {"uri": f"resumed://{name}"}).whole()


def uri_of(message: Any) -> str:
    return str(message["params"]["uri"]).removeprefix("resumed://")


async def collect(streams: list[Answer], count: int) -> list[Any]:
    """Return so many messages, from whichever streams they come, and let what is too much come too."""
    found: list[Any] = []
    for _ in range(10_000):
        found += [message_of(event) for stream in streams for event in stream.waiting() if event.data]
        await asyncio.sleep(0)
        if len(found) >= count:
            break
    for _ in range(20):
        await asyncio.sleep(0)
    return found + [message_of(event) for stream in streams for event in stream.waiting() if event.data]


async def tells_what_changes(stream: Answer, server: Server) -> None:
    """Change something, and expect to hear of that next."""
    server.tools.remove("tell")
    assert (await stream.message())["method"] == "notifications/tools/list_changed"
