"""Extensions of the protocol: identifiers, advertising, results, notifications and middleware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import Context, Extension, ProtocolError, RegistrationError, Server
from mcpkit.extensions import ExtensionResult
from mcpkit.middleware import CallTool, ToolCall
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


ID = "com.example/thing"


STATELESS = "2026-07-28"


KNOWS = {"extensions": {ID: {}}}


@dataclass
class Ticket:
    id: str
    place: int = 1


@each_row(
    "identifier",
    [
        "", "thing", "/thing", "com.example/", "com.example", "com..example/thing", "1com.example/thing",
        "com.example-/thing", "com.example/-thing", "com.example/thing.", "com.example/thing/more",
        "com.example/thing\n", "com.exämple/thing", "com example/thing", None, 7,
    ],
)  # fmt: skip
def test_extension_wrong_identifier_is_refused(identifier: Any) -> None:
    with pytest.raises(RegistrationError, match=r"com\.example/receipts"):
        Extension(identifier)
    with pytest.raises(RegistrationError, match=r"com\.example/receipts"):
        Server("s").extension(identifier)


@each_row("revision", ["2025-11-25", STATELESS])
async def test_extension_is_advertised_in_stateless_version_only(revision: str) -> None:
    server = Server("s")
    server.extension(ID, {"max": 3})
    server.include(Extension("com.example/other"))
    async with connect(server, protocol_version=revision) as client:
        advertised = client.server_capabilities.get("extensions")
    assert advertised == ({ID: {"max": 3}, "com.example/other": {}} if revision == STATELESS else None)


async def call_look(client: TestClient, tool: str = "look") -> Any:
    return (await client.call_tool(tool)).structured_content


@each_row(
    "declared",
    [
        {}, {"extensions": {}}, {"extensions": {"com.example/other": {}}}, {"extensions": {ID: 1}},
        {"extensions": []},
    ],
)  # fmt: skip
async def test_extension_undeclared_is_not_supported(declared: dict[str, Any]) -> None:
    async with connect(looking(), capabilities=declared) as client:
        assert await call_look(client) == {"supported": False, "settings": None}


def looking() -> Server:
    server = Server("s")
    thing = server.extension(ID)

    @server.tool
    async def look(ctx: Context) -> dict[str, Any]:
        return {"supported": thing.is_supported(ctx), "settings": thing.client_settings(ctx)}

    @server.tool
    async def declared(ctx: Context) -> bool:
        return ctx.client.supports(thing.capability)

    return server


def queueing(*, is_careful: bool = True) -> Server:
    """A server whose tool returns tickets to clients with the extension."""
    server = Server("s")
    thing = server.extension(ID)

    @server.tool
    async def queue(ctx: Context) -> Ticket | ExtensionResult:
        if is_careful and not thing.is_supported(ctx):
            return Ticket("plain")
        return thing.result(ctx, "ticket", Ticket("special", 7))

    @server.tool
    def queue_in_thread(ctx: Context) -> ExtensionResult:
        return thing.result(ctx, "ticket", {"id": "special", "_meta": {"com.example/a": 1}})

    return server


async def test_extension_result_has_own_type() -> None:
    async with connect(queueing(), capabilities=KNOWS) as client:
        result = await client.call_tool("queue")
        assert result.type == "ticket"
        assert result.raw.keys() == {"resultType", "id", "place", "_meta"}
        assert (result.raw["id"], result.raw["place"]) == ("special", 7)
        assert result.meta.keys() == {"io.modelcontextprotocol/serverInfo"}
        assert (result.content, result.structured_content, result.is_error) == ([], None, False)
        threaded = await client.call_tool("queue_in_thread")
        assert threaded.type == "ticket"
        assert threaded.meta.keys() == {"io.modelcontextprotocol/serverInfo", "com.example/a"}


@each_row("revision", ["2025-11-25", STATELESS])
async def test_extension_result_is_core_result_for_other_clients(revision: str) -> None:
    declared = {} if revision == STATELESS else KNOWS
    async with connect(queueing(), protocol_version=revision, capabilities=declared) as client:
        result = await client.call_tool("queue")
    assert result.type == "complete"
    assert result.text == '{"id":"plain","place":1}'
    assert not result.is_error


async def test_extension_result_for_client_without_it_is_error() -> None:
    async with connect(queueing(is_careful=False)) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.call_tool("queue")
    assert raised.value.code == -32021
    assert raised.value.data == {"requiredCapabilities": KNOWS}


def make_wrapper() -> Extension:
    """An extension that puts tickets in the place of results."""
    thing = Extension(ID)

    @thing.middleware("tools/call")
    async def wrap(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
        if call.name == "slow" and thing.is_supported(call.ctx):
            return thing.result(call.ctx, "ticket", {"id": "1"})
        return await call_next(call)

    return thing


def make_server() -> Server:
    server = Server("s")

    @server.tool
    async def slow() -> int:
        return 1

    @server.tool
    async def quick() -> int:
        return 2

    return server


async def test_extension_middleware_replaces_result() -> None:
    server = make_server()
    server.include(make_wrapper())
    async with connect(server, capabilities=KNOWS) as client:
        ticket = await client.call_tool("slow")
        assert ticket.raw == {
            "resultType": "ticket",
            "id": "1",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0.0.0"}},
        }
        assert (await client.call_tool("quick")).structured_content == 2


@each_row("revision", ["2025-11-25", STATELESS])
async def test_extension_notification_is_sent(revision: str) -> None:
    server = Server("s")
    thing = server.extension("com.example/thing")

    @server.tool
    async def notify(ctx: Context) -> str:
        await thing.notify(ctx, "notifications/thing/begun", {"id": "1"})
        await thing.notify(ctx, "notifications/thing")
        return "done"

    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("notify")
        assert await client.notification("notifications/thing/begun") == {"id": "1"}
        assert client.notifications == [{"jsonrpc": "2.0", "method": "notifications/thing"}]
