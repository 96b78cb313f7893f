"""Servers in the process of an agent SDK."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit import Server
from mcpkit.transports.in_process import SessionMessages
from tests.helpers.agent_sdks import AGENTS, Environment


def test_mcp_is_imported_when_it_is_used() -> None:
    script = """
import asyncio, sys
from mcpkit import Server

server = Server("plain", version="1.2.3")
assert not [name for name in sys.modules if name.startswith("mcpkit.transports.in_process")]
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
    assert finished.stdout.count("Install the agent SDK, which includes it, or mcp>=1.23") == 1


async def test_official_client_uses_the_instance() -> None:
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


def test_messages_are_converted_without_loss() -> None:
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCNotification

    messages = SessionMessages()
    messages.dump(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")))
    for message in (
        {"jsonrpc": "2.0", "id": 0, "method": "ping"},
        {
            "jsonrpc": "2.0",
            "id": "a",
            "method": "tools/call",
            "params": {"name": "x", "arguments": {"y": None}},
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "_meta": {"a": None}}},
    ):
        assert messages.dump(messages.make(message)) == message


CONTRACT = Path(__file__).with_name("agent_sdk_contract.py")


@pytest.mark.parametrize("environment", AGENTS, ids=str)
def test_agent_sdk_contract(environment: Environment) -> None:
    """All cases of the contract, through the routing of the SDK itself."""
    outcomes = environment.outcomes(CONTRACT)
    names = re.findall(r"^async def (\w+)\(lab: Lab", CONTRACT.read_text("utf-8"), re.MULTILINE)
    assert set(outcomes) == set(names)
    faults = [f"{name}: {outcome}" for name, outcome in outcomes.items() if outcome is not None]
    assert not faults, "\n".join(faults)
