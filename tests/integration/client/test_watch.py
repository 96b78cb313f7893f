"""Client.watch over real transports, of servers that end and streams that break."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Client, Server
from mcpkit.client import Change
from mcpkit.client.changes.changes import Subscription
from mcpkit.client.transports.http.sse import SseTransport
from tests.helpers.serving import AT_ONCE, app_of, in_thread
from tests.helpers.waiting import DEFAULT_TIMEOUT, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CERTAIN = {Change("tools"), Change("resource", "x://a")}
SERVER = """
import os
from mcpkit import Server

server = Server("changing")
names = (f"added{number}" for number in range(1000))

@server.resource("x://a")
def a() -> str:
    return "text"

@server.tool
async def change() -> None:
    server.tool(name=next(names))(a)
    server.notify_resource_updated("x://a")

@server.tool
async def end() -> None:
    os._exit(3)
"""


def changing_server() -> Server:
    """Return a server whose tool `change` adds a tool and updates the resource x://a."""
    names: dict[str, Any] = {}
    exec(SERVER, names)
    return names["server"]


async def next_changes(changes: Subscription) -> set[Change]:
    return {await asyncio.wait_for(anext(changes), DEFAULT_TIMEOUT) for _ in range(2)}


@asynccontextmanager
async def target(transport: str) -> AsyncGenerator[Any]:
    """Provide the target of a client."""
    if transport == "stdio":
        yield [sys.executable, "-c", f"{SERVER}\nserver.run()"]
    else:
        with in_thread(app_of(changing_server(), timeouts=AT_ONCE)) as url:
            yield f"{url}/mcp" if transport == "http" else SseTransport(f"{url}/sse")


@pytest.mark.parametrize(
    ("transport", "revision"),
    [("stdio", "2026-07-28"), ("http", "2025-11-25"), ("http", "2026-07-28"), ("sse", "2024-11-05")],
)
async def test_watch_over_each_transport(transport: str, revision: str) -> None:
    before = asyncio.all_tasks()
    async with target(transport) as server, Client(server, protocol_version=revision) as client:
        async with (
            client.listen(tools_list_changed=True, resource_subscriptions="x://a") as changes,
            client.listen(resource_subscriptions="x://a", tools_list_changed=True) as others,
        ):
            for _ in range(2):
                await client.call_tool("change")
                assert await next_changes(changes) == await next_changes(others) == CERTAIN
        async with client.listen(tools_list_changed=True, resource_subscriptions="x://a") as changes:
            await client.call_tool("change")
            assert await next_changes(changes) == CERTAIN
    await until(lambda: asyncio.all_tasks() == before)
