"""What the official Python client sees of a server that goes away."""

from __future__ import annotations

import signal

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.helpers.serving import serving
from tests.interop.cutting_proxy import cutting
from tests.interop.journey import COMMAND

TIME_OUT = 60


def test_another_process_with_the_same_secret_takes_a_session_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPKIT_SECRET", "only for the tests of a session's move")

    async def move(url: str) -> None:
        # Connections are not used again: one that has died would be found out too late.
        limits = httpx2.Limits(max_keepalive_connections=0)
        async with (
            httpx2.AsyncClient(limits=limits) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
        ):
            await client.call_tool("add", {"a": 1, "b": 2})
            first.stop(signal.SIGKILL)
            proxy.lead_to(second.origin)
            result = await client.call_tool("add", {"a": 2, "b": 3})
            assert result.structured_content == {"total": 5, "terms": [2, 3]}

    with (
        serving([*COMMAND, "http"]) as first,
        serving([*COMMAND, "http"]) as second,
        cutting(first.origin) as proxy,
    ):
        anyio.run(move, f"{proxy.origin}/mcp")


def test_a_listener_is_told_that_the_server_ends() -> None:
    async def listen(url: str) -> None:
        with anyio.fail_after(TIME_OUT):
            async with Client(url, cache=None) as client, client.listen(tools_list_changed=True) as stream:
                await anyio.to_thread.run_sync(served.stop)
                assert [event async for event in stream] == []  # a stream that breaks off raises

    with serving([*COMMAND, "http"]) as served:
        anyio.run(listen, f"{served.origin}/mcp")
