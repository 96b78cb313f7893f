"""The official client learns over every transport that a function ran whose result cannot be sent, and why."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

from tests.helpers.serving import serving

COMMAND = [sys.executable, str(Path(__file__).with_name("unsendable_server.py"))]
TOLD = {
    "rows": "the tool ran, but result.rows[1].price has no form in JSON: an object; return a dict",
    "total": 'the tool ran, but result: expected an integer, got "12"; return what its type promises',
    "keys": 'the tool ran, but result.1 has no form in JSON: two keys that are both "1" there',
}

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:.*deprecated")]


@pytest.mark.parametrize(
    ("transport", "mode"),
    [
        ("stdio", "legacy"),
        ("stdio", "2026-07-28"),
        ("http", "legacy"),
        ("http", "2026-07-28"),
        ("sse", "legacy"),
    ],
)
async def test_whoever_called_learns_what_came_of_it(transport: str, mode: str) -> None:
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            target = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
        else:
            url = stack.enter_context(serving([*COMMAND, transport])).origin
            target = sse_client(f"{url}/sse") if transport == "sse" else f"{url}/mcp"
        client = await stack.enter_async_context(Client(target, mode=mode))
        for name, text in TOLD.items():
            result = await client.call_tool(name)
            assert result.is_error
            assert result.content[0].text.startswith(text)
        with pytest.raises(
            MCPError, match=r"the resource was read, but result\[0\]\.price has no form in JSON"
        ) as error:
            await client.read_resource("data://rows")
        assert error.value.code == -32603
        with pytest.raises(
            MCPError, match=r'the prompt was made, but result\[0\]\.role: expected "user"'
        ) as error:
            await client.get_prompt("ask")
        assert error.value.code == -32603
