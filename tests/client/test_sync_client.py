"""SyncClient, for code without an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mcpkit import Client, Context, ProtocolError, Server, SyncClient
from mcpkit.client import Change

pytestmark = pytest.mark.anyio

server = Server("bakery", version="1", instructions="Ask for bread.")


@server.tool(annotations={"readOnlyHint": True})
async def bake(number: int, ctx: Context) -> int:
    """Bake."""
    await ctx.report_progress(1, 2)
    return number


@server.resource("bread://rye")
def rye() -> str:
    return "rye"


@server.prompt
def toast(name: str) -> str:
    return f"A toast to {name}."


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_sync_client_has_operations_of_client(revision: str) -> None:
    steps: list[float] = []
    with SyncClient(server, protocol_version=revision) as client:
        assert client.protocol_version == revision
        assert client.protocol_version_reason == "as requested"
        assert client.server_info["name"] == "bakery"
        assert "tools" in client.server_capabilities
        assert client.instructions == "Ask for bread."
        result = client.call_tool("bake", {"number": 3}, progress=lambda *step: steps.append(step[0]))
        assert result.text == "3"
        assert [tool["name"] for tool in client.list_tools()] == ["bake"]
        assert [each["uri"] for each in client.list_resources()] == ["bread://rye"]
        assert client.list_resource_templates() == []
        assert [each["name"] for each in client.list_prompts()] == ["toast"]
        assert client.read_resource("bread://rye")[0]["text"] == "rye"
        assert client.get_prompt("toast", {"name": "Ada"})[0]["content"]["text"] == "A toast to Ada."
        assert client.request("tools/list")["tools"]
        client.set_log_level("error")
        with pytest.raises(ProtocolError):
            client.call_tool("unknown")
    assert steps == [1]


def test_sync_client_has_all_coroutine_methods() -> None:
    methods = {name for name, value in vars(Client).items() if asyncio.iscoroutinefunction(value)}
    assert {name for name in methods if name[0] != "_" and not hasattr(SyncClient, name)} == set()


def loops() -> int:
    """Count the threads of clients."""
    return sum(thread.name == "mcpkit-client" for thread in threading.enumerate())


def test_sync_client_thread_ends_on_close() -> None:
    before = loops()
    client = SyncClient(server)
    for _ in range(3):
        with client:
            client.call_tool("bake", {"number": 1})
            assert loops() == before + 1
        client.close()
        assert loops() == before
    with pytest.raises(ConnectionError, match="not open"):
        client.call_tool("bake", {"number": 1})


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_sync_watch_yields_changes(revision: str) -> None:
    server = Server("changing")

    @server.resource("x://a")
    def read() -> str:
        return "text"

    @server.tool
    async def change() -> None:
        server.notify_resource_updated("x://a")

    with SyncClient(server, protocol_version=revision) as client:
        with client.listen(resource_subscriptions="x://a") as changes:
            client.call_tool("change")
            assert next(changes) == Change("resource", "x://a")
            client.call_tool("change")
            for change in changes:
                assert change == Change("resource", "x://a")
                break
        assert list(changes) == []
        changes.close()
        with pytest.raises(ProtocolError, match="the list of prompts"):
            client.listen(prompts_list_changed=True).__enter__()
