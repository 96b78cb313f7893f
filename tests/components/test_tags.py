"""Tags: what switches several components at once."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Registry, Server
from mcpkit.testing import Client, connect

pytestmark = pytest.mark.anyio


def report() -> str:
    """A report."""
    return "report"


async def names(client: Client) -> list[str]:
    found: list[dict[str, Any]] = [
        *await client.list_tools(),
        *await client.list_prompts(),
        *await client.list_resources(),
        *await client.list_resource_templates(),
    ]
    return [each["name"] for each in found]


@pytest.fixture
def server() -> Server:
    server = Server("tagged")
    server.tool(report, name="tool", tags={"old"})
    server.tool(report, name="another", tags={"old", "secret"})
    server.tool(report, name="plain")
    server.prompt(report, name="prompt", tags={"old"})
    server.resource("data://x", name="resource", tags={"old"})(report)
    server.resource("data://x/{y}", name="template", tags={"old"})(lambda y: y)
    return server


async def test_all_of_a_tag_is_hidden_and_shown_at_once(server: Server) -> None:
    async with connect(server) as client:
        everything = await names(client)
        server.disable(tags={"old"})
        assert await names(client) == ["plain"]
        server.enable(tags=["old"])
        assert (
            await names(client)
            == everything
            == ["tool", "another", "plain", "prompt", "resource", "template"]
        )


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_is_added_later_is_hidden_as_well(server: Server, revision: str) -> None:
    server.disable(tags={"old", "unknown"})
    async with connect(server, revision=revision) as client:
        server.tool(report, name="later", tags={"unknown"})
        assert [tool["name"] for tool in await client.list_tools()] == ["plain"]
        server.enable(tags={"unknown"})
        assert [tool["name"] for tool in await client.list_tools()] == ["plain", "later"]


async def test_another_tag_keeps_a_component_hidden(server: Server) -> None:
    server.disable(tags={"old"})
    server.disable(tags={"secret"})
    server.enable(tags={"old"})
    async with connect(server) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["tool", "plain"]


async def test_what_is_included_is_hidden_here_alone() -> None:
    registry = Registry()
    server = Server("outer")
    server.disable(tags={"old"})
    server.include(registry)
    registry.tool(report, tags={"old"})
    registry.tools.disable("report")
    registry.tools.enable("report")
    async with connect(server) as client:
        assert await client.list_tools() == []
        assert registry.tools["report"].is_enabled
        server.enable(tags={"old"})
        assert [tool["name"] for tool in await client.list_tools()] == ["report"]


async def test_what_is_hidden_by_the_source_stays_hidden() -> None:
    registry = Registry()
    server = Server("outer")
    server.include(registry)
    registry.tool(report, tags={"old"})
    registry.disable(tags={"old"})
    async with connect(server) as client:
        assert await client.list_tools() == []
        registry.enable(tags={"old"})
        assert [tool["name"] for tool in await client.list_tools()] == ["report"]


async def test_clients_are_told(server: Server) -> None:
    async with connect(server, revision="2025-11-25") as client:
        server.disable(tags={"old"})
        await client.notification("notifications/tools/list_changed")
        await client.notification("notifications/prompts/list_changed")
        await client.notification("notifications/resources/list_changed")


def test_one_word_is_no_set_of_words(server: Server) -> None:
    with pytest.raises(TypeError, match=r"write tags=\{'old'\}"):
        server.disable(tags="old")
