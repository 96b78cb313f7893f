"""The transport of 2024-11-05 against servers at a port: mcpkit's own and the official one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mcp.server import MCPServer

from asgi_answer import within
from mcpkit.client.client import Client
from mcpkit.client.transports.sse import SseTransport
from serving import in_thread
from toured import REVISIONS, Toured, tour
from waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_at_a_port_is_used(revision: str) -> None:
    with in_thread(Toured().server.asgi(grace=0)) as url:
        await tour(SseTransport(f"{url}/sse"), revision)


@contextmanager
def official() -> Iterator[str]:
    server = MCPServer("official", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    with in_thread(server.sse_app()) as url:
        yield url


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_official_server_is_used(revision: str) -> None:
    with official() as url:
        async with Client(SseTransport(f"{url}/sse"), revision=revision) as client:
            assert (await client.call("add", {"a": 1, "b": 2})).text == "3"


async def test_a_session_whose_stream_has_ended_is_opened_again() -> None:
    toured = Toured()
    app = toured.server.asgi(grace=0)
    with in_thread(app) as url:
        async with Client(SseTransport(f"{url}/sse")) as client:
            assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
            pipes = next(iter(app.door()._services.values())).pipes
            (pipe,) = pipes.values()
            loop = pipe._environment.loop
            loop.call_soon_threadsafe(pipe._exchange.finish)
            await until(lambda: not client._link.is_open)
            assert (await within(client.call("add", {"a": 1, "b": 3}))).text == "4"
