"""Changes at the servers of a configuration, heard as one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mcpkit import Change, Client, ProtocolError, Server
from mcpkit.client.changes.changes import Watch
from tests.helpers.scripted_transport import Message, ScriptedTransport, error, initialized
from tests.helpers.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio


def _text() -> str:
    return "text"


def with_tool(name: str) -> Server:
    server = Server(name)
    server.tool(name="a")(_text)
    return server


def with_resource(name: str) -> Server:
    server = Server(name)
    server.resource(f"{name}://a", name="a")(_text)
    return server


async def heard(changes: Watch) -> Change:
    return await asyncio.wait_for(anext(changes), PATIENCE)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_server_is_heard_of_what_it_tells_of(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, two, three = with_tool("one"), with_tool("two"), with_resource("three")
    servers = {"one": one, "two": two, "three": three, "empty": Server("empty")}
    async with (
        Client({"mcpServers": servers}, revision=revision) as client,
        client.watch(tools=True, resources="three://a") as changes,
        client.watch() as lists,
    ):
        for server in (one, two):
            server.tool(name="b")(_text)
            assert await heard(changes) == await heard(lists) == Change("tools")
        three.resource_updated("three://a")
        assert await heard(changes) == Change("resource", "three://a")
        three.resource("three://b", name="b")(_text)
        assert await heard(lists) == Change("resources")
    assert not caplog.messages


async def test_what_no_server_tells_of_is_an_error_that_says_what() -> None:
    async with Client({"mcpServers": {"one": with_tool("one"), "two": with_tool("two")}}) as client:
        with pytest.raises(ProtocolError, match="changes of x://a, the list of prompts;"):
            async with client.watch(tools=True, prompts=True, resources="x://a"):
                pass
    async with Client({"mcpServers": {"one": Server("empty")}}) as client:
        with pytest.raises(ProtocolError, match="any list"):
            async with client.watch():
                pass


async def test_it_ends_with_the_client_and_before_it_at_all_servers() -> None:
    before = asyncio.all_tasks()
    async with Client({"mcpServers": {"one": with_tool("one"), "two": with_tool("two")}}) as client:
        async with client.watch(tools=True) as changes:
            pass
        assert [change async for change in changes] == []
        assert asyncio.all_tasks() == before
        changes = await client.watch(tools=True).__aenter__()
        waiting = asyncio.create_task(_all(changes))
    assert await asyncio.wait_for(waiting, PATIENCE) == []
    with pytest.raises(ConnectionError, match="not open"):
        async with client.watch():
            pass


async def _all(changes: Watch) -> list[Change]:
    return [change async for change in changes]


async def test_where_one_refuses_the_others_are_left_again() -> None:
    def script(_: ScriptedTransport, message: Message) -> Any:
        if message["method"] == "initialize":
            answer = initialized(message)
            answer["result"]["capabilities"] = {"resources": {"subscribe": True}}
            return [answer]
        if message["method"] == "resources/subscribe":
            return [{"id": message["id"], "error": {"code": -32002, "message": "no such resource"}}]
        if message["method"].endswith("/list"):
            return [{"id": message["id"], "result": {"resources": [], "resourceTemplates": []}}]
        return None

    before = asyncio.all_tasks()
    config = {"mcpServers": {"refusing": ScriptedTransport(script), "good": with_resource("good")}}
    async with Client(config, revision="2025-11-25") as client:
        with pytest.raises(ProtocolError, match="no such resource"):
            async with client.watch(resources=["x://a", "good://a"]):
                pass
        for _ in range(20):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == before


def refusing_later(transport: ScriptedTransport, message: Message) -> Any:
    """Tell of changes, and speak to nobody who comes again."""
    if message["method"] == "initialize" and transport.opened > 1:
        return [error(message, -32602, "no more")]
    if message["method"] == "initialize":
        answer = initialized(message)
        answer["result"]["capabilities"] = {"tools": {"listChanged": True}}
        return [answer]
    return None


async def test_where_one_is_lost_the_others_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    lost, good = ScriptedTransport(refusing_later), with_tool("good")
    async with (
        Client({"mcpServers": {"lost": lost, "good": good}}, revision="2025-11-25") as client,
        client.watch(tools=True) as changes,
    ):
        with caplog.at_level(logging.WARNING):
            lost.die()
            await until(lambda: "Changes at the server lost are not heard: no more" in caplog.messages)
        good.tool(name="b")(_text)
        assert await heard(changes) == Change("tools")
        async with client.watch(tools=True):  # begins without it
            pass
    assert caplog.messages == ["Changes at the server lost are not heard: no more"] * 2


async def test_where_all_are_lost_that_is_raised() -> None:
    transports = [ScriptedTransport(refusing_later), ScriptedTransport(refusing_later)]
    config = {"mcpServers": {"one": transports[0], "two": transports[1]}}
    async with Client(config, revision="2025-11-25") as client, client.watch(tools=True) as changes:
        for transport in transports:
            transport.die()
        with pytest.raises(ProtocolError, match="no more"):
            await heard(changes)
