from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcpkit import Client, ProtocolError
from tests.integration.compat.fastmcp.bakery import bakery

pytestmark = pytest.mark.anyio
REVISIONS = ("2025-11-25", "2026-07-28")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "order://1-x-y.json"}),
        ("resources/read", {"uri": "\x00"}),
        ("resources/read", {"uri": 7}),
        ("prompts/get", {"name": "ask", "arguments": {"question": {"a": 1}}}),
        ("prompts/get", {"name": "ask", "arguments": {"question": "x", "self": "y", "ctx": "z"}}),
        ("prompts/get", {"name": "\ud7ff" * 1000, "arguments": {}}),
        ("prompts/get", {"name": "ask", "arguments": []}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {}}),
    ],
)
async def test_what_is_wrong_is_refused_and_the_server_goes_on(
    revision: str, method: str, params: dict[str, Any]
) -> None:
    async with Client(bakery()._mcp_server.served, revision=revision) as client:
        with pytest.raises(ProtocolError):
            await asyncio.wait_for(client.request(method, params), 20)
        (read,) = await client.read("order://monday-3-rye.json")
        assert json.loads(read["text"]) == {"day": "monday", "number": 3, "kind": "rye"}


@pytest.mark.limit("matching of a URI by a template of a FastMCP")
async def test_a_uri_that_would_take_too_long_to_match_is_unknown() -> None:
    async with Client(bakery()._mcp_server.served) as client:
        kind = "k" * (391 - len("order://d-1-.json"))
        (read,) = await client.read(f"order://d-1-{kind}.json")
        assert json.loads(read["text"])["kind"] == kind
        for uri in (f"order://d-1-k{kind}.json", "order://" + "-" * 4000):
            with pytest.raises(ProtocolError, match="Unknown resource"):
                await asyncio.wait_for(client.read(uri), 20)
