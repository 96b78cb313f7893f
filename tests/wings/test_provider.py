"""A provider answers lists and look-ups by `await`; its entries stand behind the registry's."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mcpkit import ProtocolError, Server
from mcpkit.testing import Client, connect
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def notes() -> Any:
    from tests.wings.notes import Notes

    return Notes({"milk": "buy milk", "bread": "buy bread"})


def make(notes: Any, **options: Any) -> Server:
    server = Server("notes", **options)
    for name in ("add", "zip"):
        server.tool(name=name)(lambda: name)
    server.include(notes)
    return server


async def names(client: Client) -> list[str]:
    return [each["name"] for each in await client.list_tools()]


@pytest.mark.parametrize("page_size", [None, 1, 3])
async def test_its_entries_stand_behind_the_registrys(notes: Any, page_size: int | None) -> None:
    async with connect(make(notes, page_size=page_size)) as client:
        assert await names(client) == ["add", "zip", "milk", "bread"]
        assert [each["uri"] for each in await client.list_resources()] == ["note://milk", "note://bread"]


async def test_look_ups_find_what_it_has(notes: Any) -> None:
    async with connect(make(notes)) as client:
        assert (await client.call("milk")).text == "buy milk"
        assert (await client.read("note://bread"))[0]["text"] == "buy bread"
        assert notes.lists == 0  # a look-up does not list
        with pytest.raises(ProtocolError, match="Unknown tool: eggs"):
            await client.call("eggs")
        with pytest.raises(ProtocolError, match="note://eggs"):
            await client.read("note://eggs")


async def test_its_pages_are_not_kept(notes: Any) -> None:
    async with connect(make(notes)) as client:
        assert "eggs" not in await names(client)
        notes.texts["eggs"] = "buy eggs"  # and it says nothing of it
        assert "eggs" in await names(client)
        page = await client.request("tools/list")
        assert page.get("cacheScope") == "private"


async def test_what_it_says_has_changed_is_announced(notes: Any) -> None:
    async with connect(make(notes), revision="2025-11-25") as client:
        await asyncio.to_thread(notes.write, "eggs", "buy eggs")
        await until(lambda: len(client.notifications) == 2)
        assert {each["method"] for each in client.notifications} == {
            "notifications/tools/list_changed",
            "notifications/resources/list_changed",
        }
        assert (await client.call("eggs")).text == "buy eggs"


async def test_names_clash_loudly(notes: Any, caplog: pytest.LogCaptureFixture) -> None:
    notes.texts["add"] = "what?"
    async with connect(make(notes)) as client:
        with pytest.raises(ProtocolError, match="two tools 'add'"), caplog.at_level(logging.ERROR, "mcpkit"):
            await client.list_tools()
        assert "Notes" in caplog.text
        assert (await client.call("milk")).text == "buy milk"


async def test_it_is_taken_back(notes: Any) -> None:
    server = Server("notes")
    with server.include(notes):
        async with connect(server) as client:
            assert await names(client) == ["milk", "bread"]
    async with connect(server) as client:
        with pytest.raises(ProtocolError):
            await client.call("milk")
