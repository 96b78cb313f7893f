"""Clients over HTTP of servers of ours and of the official SDK: at a port and as apps, mounted in other frameworks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mcpkit import Client, Context, Server
from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.serving import in_thread
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

EVERY = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


class Work:
    """What goes on at the server, in another thread, counted."""

    def __init__(self) -> None:
        self.cancelled = 0


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def server(work: Work) -> Server:
    server = Server("asked")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            work.cancelled += 1

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.list_roots())[0].uri

    @server.resource("asked://{name}")
    async def resource(name: str) -> str:
        return name

    @server.prompt
    async def plan(city: str) -> str:
        return f"Plan for {city}"

    return server


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with in_thread(server.asgi()) as origin:
        yield f"{origin}/mcp"


def client(url: str, revision: str | None = None, **options: Any) -> Client:
    return Client(HttpTransport(url, **options), protocol_version=revision)


@EVERY
async def test_http_calls_are_answered(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        assert asked.protocol_version == revision
        assert (await asked.call_tool("echo", {"text": "å\n😀"})).text == "å\n😀"
        assert (await asked.read_resource("asked://fixed"))[0]["text"] == "fixed"
        assert (await asked.get_prompt("plan", {"city": "Oslo"}))[0]["content"]["text"] == "Plan for Oslo"


@EVERY
async def test_http_server_requests_are_answered(url: str, revision: str) -> None:
    async with Client(HttpTransport(url), protocol_version=revision, roots=["file:///there"]) as asked:
        assert (await asked.call_tool("ask")).text == "file:///there"


@EVERY
async def test_http_timeout_cancels_call_at_server(url: str, revision: str, work: Work) -> None:
    async with client(url, revision) as asked:
        with pytest.raises(TimeoutError):
            await asked.call_tool("wait", timeout=0.2)
        await until(lambda: work.cancelled)


async def test_app_failure_is_transport_error() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raise ValueError("no such table")

    with pytest.raises(TransportError, match="the app raised ValueError: no such table, without") as caught:
        async with Client(HttpTransport("http://127.0.0.1:8000/mcp", app=app)):
            pass
    assert isinstance(caught.value.__cause__, ValueError)
