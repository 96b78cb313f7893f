"""Servers of the official SDK over HTTP, in every way that they can be served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore

from mcpkit import Client
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.serving import in_thread
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

WAYS: dict[str, dict[str, Any]] = {
    "sessions": {},
    "sessions, json": {"json_response": True},
    "stateless": {"stateless_http": True},
    "stateless, json": {"stateless_http": True, "json_response": True},
}
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", None]


class Events(EventStore):
    """Keeps all events in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        place = int(last_event_id)
        stream = self.kept[place - 1][0]
        for number, (stream_id, message) in enumerate(self.kept[place:], place + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def make_server() -> MCPServer:
    server = MCPServer("official")

    @server.tool()
    async def echo(text: str) -> str:
        return text

    @server.tool()
    async def report(times: int, ctx: Context) -> str:
        for done in range(times):
            await ctx.report_progress(done + 1, times)
        return "reported"

    @server.tool()
    async def poll(ctx: Context) -> str:
        await ctx.report_progress(1)
        await ctx.close_sse_stream()
        await asyncio.sleep(0.2)
        await ctx.report_progress(2)
        return "polled"

    @server.tool()
    async def change(ctx: Context) -> str:
        await ctx.session.send_tool_list_changed()
        return "changed"

    return server


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    with in_thread(make_server().streamable_http_app(**options)) as origin:
        yield f"{origin}/mcp"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_calls_are_answered(way: str, revision: str | None) -> None:
    with serving(**WAYS[way]) as url:
        async with Client(HttpTransport(url), revision=revision) as client:
            assert client.revision == (revision or "2026-07-28")
            texts = [f"å {number}" for number in range(70)]
            results = await asyncio.gather(*(client.call("echo", {"text": text}) for text in texts))
            assert [result.text for result in results] == texts
            assert len(await client.list_tools()) == 4
            heard: list[float] = []
            await client.call("report", {"times": 3}, progress=lambda done, *_: heard.append(done))
            assert heard == ([] if "json" in way else [1, 2, 3])


async def test_a_stream_that_the_server_closes_goes_on() -> None:
    with serving(event_store=Events(), retry_interval=50) as url:
        async with Client(HttpTransport(url), revision="2025-11-25") as client:
            heard: list[float] = []
            result = await client.call("poll", progress=lambda done, *_: heard.append(done))
            assert (result.text, heard) == ("polled", [1, 2])


async def test_what_the_server_says_unasked_is_heard() -> None:
    with serving() as url:
        async with Client(HttpTransport(url), revision="2025-11-25") as client:
            heard: list[str] = []
            client._link.listeners.add(lambda method, params: heard.append(method))
            await client.call("change")
            await until(lambda: heard)
    assert heard == ["notifications/tools/list_changed"]


async def test_a_session_that_the_server_has_ended_is_opened_again() -> None:
    ids: list[str] = []

    async def see(response: httpx2.Response) -> None:
        if id_ := response.headers.get("mcp-session-id"):
            ids.append(id_)

    with serving() as url:
        async with (
            httpx2.AsyncClient(event_hooks={"response": [see]}) as own,
            Client(HttpTransport(url, http_client=own), revision="2025-11-25") as client,
        ):
            first = ids[0]
            ended = await own.delete(url, headers={"mcp-session-id": first})
            assert ended.status_code == 200
            assert (await client.call("echo", {"text": "here"})).text == "here"
            assert ids[-1] != first
