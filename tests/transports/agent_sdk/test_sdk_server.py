"""What agent SDKs are given, as far as it takes no SDK to try it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import weakref

import anyio
import pytest

from mcpkit import Server
from mcpkit.protocol.types import Json
from mcpkit.transports.agent_sdk.session_messages import SessionMessages

pytestmark = pytest.mark.anyio


def test_nothing_of_mcp_is_imported_before_it_is_needed() -> None:
    script = """
import asyncio, sys
from mcpkit import Server

server = Server("plain", version="1.2.3")
assert not [name for name in sys.modules if name.startswith("mcpkit.transports.agent_sdk")]
instance = server.as_sdk_server()
options = instance.create_initialization_options()
assert (options.server_name, options.server_version) == (instance.name, instance.version) == ("plain", "1.2.3")
assert not {"mcp", "anyio", "pydantic"} & set(sys.modules)
sys.modules["mcp"] = None
try:
    instance.request_handlers
except ImportError as error:
    print(error)
"""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", timeout=60
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("install the SDK of the agent, which brings it, or mcp>=1.23") == 1


def test_an_instance_may_be_kept_weakly_and_in_sets() -> None:
    instance = Server("kept").as_sdk_server()
    assert instance in weakref.WeakSet([instance])


def test_who_the_agent_is_must_be_a_principal() -> None:
    with pytest.raises(TypeError, match="principal must be a Principal"):
        Server("known").as_sdk_server(principal="ada")  # type: ignore[arg-type]


def test_the_server_is_at_hand() -> None:
    server = Server("at hand")
    assert server.as_sdk_server().server is server


async def test_a_client_of_the_official_library_talks_to_it() -> None:
    from mcp import ClientSession
    from mcp.shared.memory import create_client_server_memory_streams

    server = Server("official", version="1")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    instance = server.as_sdk_server()
    async with create_client_server_memory_streams() as (client, served):
        serving = asyncio.create_task(instance.run(*served, instance.create_initialization_options()))
        async with ClientSession(*client) as session:
            await session.initialize()
            assert [tool.name for tool in (await session.list_tools()).tools] == ["add"]
            assert (await session.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        await client[1].aclose()
        await serving


def begun() -> SessionMessages:
    """Return messages of a client that has said something."""
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCNotification

    messages = SessionMessages()
    messages.dump(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")))
    return messages


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 0, "method": "ping"},
        {
            "jsonrpc": "2.0",
            "id": "a",
            "method": "tools/call",
            "params": {"name": "x", "arguments": {"y": None}},
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "_meta": {"a": None}}},
    ],
)
def test_messages_keep_all_that_they_have(message: Json) -> None:
    messages = begun()
    assert messages.dump(messages.make(message)) == message


async def test_a_request_that_was_answered_is_not_told_to_be_unanswered() -> None:
    told: list[int] = []
    messages = begun()

    async def tell() -> None:
        told.append(1)

    from mcp.shared.message import ServerMessageMetadata, SessionMessage

    for id_ in (1, 2):
        asked = messages.make({"jsonrpc": "2.0", "id": id_, "method": "ping"})
        metadata = ServerMessageMetadata(on_request_unanswered=tell)
        messages.dump(SessionMessage(asked.message, metadata=metadata))  # type: ignore[arg-type]
    messages.make({"jsonrpc": "2.0", "id": 1, "result": {}})
    to_server, read = anyio.create_memory_object_stream[SessionMessage](9)
    for id_ in (1, 2, 2, 3):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
        to_server.send_nowait(messages.make(cancelled))  # type: ignore[arg-type]
    to_server.close()
    assert len([each async for each in messages.arriving(read)]) == 4
    assert told == [1]
