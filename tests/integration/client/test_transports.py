"""Clients of mcpkit's servers over HTTP, HTTP+SSE and stdio: calls, requests of the server, timeouts, watches."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Client
from mcpkit._utils.exceptions import TransportError
from mcpkit.client import Change
from mcpkit.client.client_subscriptions import Subscription
from mcpkit.client.http.http_transports import HttpTransport, SseTransport
from tests.helpers.serving import AT_ONCE, app_of, in_thread
from tests.helpers.waiting import DEFAULT_TIMEOUT, LoopClock, until

pytestmark = pytest.mark.slow

CERTAIN = {Change("tools"), Change("resource", "x://a")}
SERVER = """
import asyncio
from mcpkit import Context, Server

server = Server("changing")
names = (f"added{number}" for number in range(1000))
steps = []

@server.resource("x://a")
def a() -> str:
    return "text"

@server.tool
async def change() -> None:
    server.tool(name=next(names))(a)
    server.notify_resource_updated("x://a")

@server.tool
async def ask(ctx: Context, question: str) -> str:
    return question + (await ctx.list_roots())[0].uri

@server.tool
async def wait() -> None:
    steps.append("started")
    try:
        await asyncio.Event().wait()
    finally:
        steps.append("cancelled")
"""


@asynccontextmanager
async def target(transport: str) -> AsyncGenerator[tuple[Any, dict[str, Any]]]:
    """Provide the target of a client, and the names of the server where it runs in this process."""
    names: dict[str, Any] = {}
    if transport == "stdio":
        yield [sys.executable, "-c", f"{SERVER}\nserver.run()"], names
    else:
        exec(SERVER, names)
        with in_thread(app_of(names["server"], timeouts=AT_ONCE)) as url:
            yield f"{url}/mcp" if transport == "http" else SseTransport(f"{url}/sse"), names


async def next_changes(changes: Subscription) -> set[Change]:
    return {await asyncio.wait_for(anext(changes), DEFAULT_TIMEOUT) for _ in range(2)}


@pytest.mark.parametrize(
    ("transport", "revision"),
    [("stdio", "2026-07-28"), ("http", "2025-11-25"), ("http", "2026-07-28"), ("sse", "2024-11-05")],
)
async def test_watch_over_each_transport(transport: str, revision: str) -> None:
    before = asyncio.all_tasks()
    kinds: Any = {"tools_list_changed": True, "resource_subscriptions": "x://a"}
    async with target(transport) as (server, _), Client(server, protocol_version=revision) as client:
        async with client.listen(**kinds) as changes, client.listen(**kinds) as others:
            for _ in range(2):
                await client.call_tool("change")
                assert await next_changes(changes) == await next_changes(others) == CERTAIN
        async with client.listen(**kinds) as changes:
            await client.call_tool("change")
            assert await next_changes(changes) == CERTAIN
    await until(lambda: asyncio.all_tasks() == before)


async def test_http_call_with_request_of_server_is_answered_and_timeout_cancels(revision: str) -> None:
    options: Any = {"protocol_version": revision, "roots": ["file:///there"]}
    async with target("http") as (url, names), Client(HttpTransport(url), **options) as client:
        assert (await client.call_tool("ask", {"question": "å\n😀"})).text == "å\n😀file:///there"
        call = asyncio.ensure_future(client.call_tool("wait", timeout=60))
        await until(lambda: names["steps"] == ["started"])
        clock = LoopClock()
        clock.ahead += 61
        with pytest.raises(TimeoutError):
            await call
        await until(lambda: names["steps"] == ["started", "cancelled"])


async def test_app_failure_is_transport_error() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raise ValueError("no such table")

    with pytest.raises(TransportError, match="the app raised ValueError: no such table, without") as caught:
        await Client(HttpTransport("http://127.0.0.1:8000/mcp", app=app)).__aenter__()
    assert isinstance(caught.value.__cause__, ValueError)
