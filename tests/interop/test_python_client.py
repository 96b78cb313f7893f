"""The official Python client as a judge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import (
    EmptyResult,
    PromptReference,
    Request,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)

from tests.interop.cutting_proxy import cutting
from tests.interop.journey import HANDSHAKE, STATELESS, TRANSPORTS, check, check_end, check_identity

TIME_OUT = 60
GREETING = "interop://greeting"

handshake = pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:resources/.*subscribe is removed")


def plain(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


class Deletions:
    """The sessions that the client has ended, seen on the wire."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []

    async def note(self, request: httpx2.Request) -> None:
        if request.method == "DELETE":
            self.requests.append(request)

    async def status_after(self) -> int | None:
        """The status of a request in the deleted session, if there was one."""
        if not self.requests:
            return None
        (deletion,) = self.requests
        async with create_mcp_http_client() as client:
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            return (await client.post(deletion.url, headers=deletion.headers, json=ping)).status_code


@asynccontextmanager
async def connected(
    transport: str, target: list[str], deletions: Deletions, **options: Any
) -> AsyncIterator[Client]:
    if transport == "stdio":
        async with Client(StdioServerParameters(command=target[0], args=target[1:]), **options) as client:
            yield client
    elif transport == "sse":
        async with Client(sse_client(*target), **options) as client:
            yield client
    else:
        async with create_mcp_http_client() as http:
            http.event_hooks["request"].append(deletions.note)
            async with Client(streamable_http_client(*target, http_client=http), **options) as client:
                yield client


async def count_until_enough(client: Client) -> tuple[list[dict[str, Any]], Any]:
    progress: list[dict[str, Any]] = []
    all_reported = anyio.Event()

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append({"progress": done, "total": total, "message": message})
        if done == total:
            all_reported.set()

    async def say_enough() -> None:
        await all_reported.wait()
        await client.call_tool("enough")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(say_enough)
        result = await client.call_tool("count", {"to": 3}, progress_callback=on_progress)
    return progress, result


async def cancel(client: Client) -> str:
    with anyio.CancelScope() as scope:

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            scope.cancel()

        await client.call_tool("hang", progress_callback=on_progress)
    return "cancelled" if scope.cancelled_caught else "answered"


class Changes:
    """The changes that the client is told, in whichever way."""

    def __init__(self) -> None:
        self.heard: set[str] = set()
        self.all_heard = anyio.Event()

    async def on_message(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.hear("tools")
        elif isinstance(message, ResourceUpdatedNotification):
            self.hear(str(message.params.uri))

    def hear(self, change: str) -> None:
        self.heard.add(change)
        if len(self.heard) == 2:
            self.all_heard.set()

    async def after(self, client: Client) -> list[str]:
        if client.protocol_version == STATELESS:
            async with client.listen(tools_list_changed=True, resource_subscriptions=[GREETING]) as stream:
                await client.call_tool("stir")
                while not self.all_heard.is_set():
                    event = await anext(stream)
                    self.hear(getattr(event, "uri", "tools"))
        else:
            await client.subscribe_resource(GREETING)
            await client.call_tool("stir")
            await self.all_heard.wait()
            await client.unsubscribe_resource(GREETING)
        return sorted(self.heard)


async def outcome(coroutine: Any) -> dict[str, Any]:
    """The result, or what the error says."""
    try:
        return plain(await coroutine)
    except MCPError as refused:
        return {"code": refused.code, "data": refused.error.data}


async def journey(mode: str, transport: str, *target: str) -> dict[str, Any]:
    seen: dict[str, Any] = {"logs": []}
    changes = Changes()
    deletions = Deletions()

    async def on_log(params: Any) -> None:
        seen["logs"].append(plain(params))

    options = {
        "mode": mode,
        "logging_callback": on_log,
        "log_level": "info",
        "message_handler": changes.on_message,
        "cache": None,
    }
    with anyio.fail_after(TIME_OUT):
        async with connected(transport, [*target], deletions, **options) as client:
            seen["revision"] = client.protocol_version
            seen["server"] = client.server_info and plain(client.server_info)
            seen["instructions"] = client.instructions
            if client.protocol_version != STATELESS:
                await client.set_logging_level("info")
            await use_all(client, seen)
            seen["changes"] = await changes.after(client)
        seen["afterDelete"] = await deletions.status_after()
    return seen


async def use_all(client: Client, seen: dict[str, Any]) -> None:
    seen["tools"] = plain(await client.list_tools())["tools"]
    seen["add"] = plain(await client.call_tool("add", {"a": 2, "b": 3}))
    seen["quotient"] = plain(await client.call_tool("divide", {"a": 1, "b": 4}))
    seen["divide"] = plain(await client.call_tool("divide", {"a": 1, "b": 0}))
    seen["wrong"] = plain(await client.call_tool("add", {"a": "two", "b": 3}))
    seen["picture"] = plain(await client.call_tool("picture"))
    seen["locate"] = plain(await client.call_tool("locate", {"region": "São Paulo"}))
    seen["progress"], count = await count_until_enough(client)
    seen["count"] = plain(count)
    seen["part"] = plain(await client.call_tool("part"))
    seen["hang"] = await cancel(client)
    seen["release"] = plain(await client.call_tool("release"))

    seen["resources"] = plain(await client.list_resources())["resources"]
    seen["templates"] = plain(await client.list_resource_templates())["resourceTemplates"]
    seen["read"] = plain(await client.read_resource(GREETING))
    seen["readTemplate"] = plain(await client.read_resource("interop://greetings/dutch"))
    seen["prompts"] = plain(await client.list_prompts())["prompts"]
    seen["prompt"] = plain(await client.get_prompt("welcome", {"name": "Ada", "style": "friendly"}))
    prompt = PromptReference(type="ref/prompt", name="welcome")
    seen["completePrompt"] = plain(await client.complete(prompt, {"name": "style", "value": "f"}))
    template = ResourceTemplateReference(type="ref/resource", uri="interop://greetings/{language}")
    seen["completeTemplate"] = plain(await client.complete(template, {"name": "language", "value": "d"}))
    seen["missing"] = await outcome(client.read_resource("interop://nowhere"))
    seen["unknown"] = await outcome(client.call_tool("nobody"))
    seen["imagine"] = await outcome(client.call_tool("imagine"))
    nothing = Request[Any, Any](method="interop/nothing", params=None)
    seen["nothing"] = await outcome(client.session.send_request(nothing, EmptyResult))


@handshake
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_handshake(reach, transport):
    seen = anyio.run(journey, "legacy", *reach(transport))
    check_identity(seen)
    check(seen, HANDSHAKE)
    check_end(seen, has_session=transport == "http")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_automatic(reach, transport):
    seen = anyio.run(journey, "auto", *reach(transport))
    check_identity(seen)
    check(seen, STATELESS)
    check_end(seen, has_session=False)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pinned(reach, transport):
    """Pinned, this client asks for no identity: its first message is an ordinary request."""
    check(anyio.run(journey, STATELESS, *reach(transport)), STATELESS)


@handshake
def test_a_cut_connection_loses_nothing(http_server):
    """The stream of a call is cut in its middle, and the stream of the session when a change was told."""
    with cutting(http_server.origin, b'"at 2"', b"tools/list_changed") as proxy:
        seen = anyio.run(journey, "legacy", "http", f"{proxy.origin}/mcp")
    assert proxy.markers == []
    assert proxy.resumptions >= 2
    check(seen, HANDSHAKE)
    check_end(seen, has_session=True)
