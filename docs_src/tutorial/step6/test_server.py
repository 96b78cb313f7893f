import asyncio
from pathlib import Path

import pytest

from mcpkit import Client
from mcpkit.testing import connect
from server import server


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_DB", str(tmp_path / "notes.db"))


async def add_shopping(client: Client) -> None:
    await client.call_tool(
        "add_note", {"title": "shopping", "body": "Milk and bread"}
    )


def test_search_finds_text_in_any_case() -> None:
    async def run() -> None:
        async with connect(server) as client:
            await add_shopping(client)
            result = await client.call_tool("search_notes", {"text": "MILK"})
            assert [note["title"] for note in result.data] == ["shopping"]

    asyncio.run(run())


def test_second_note_of_a_title_is_refused() -> None:
    async def run() -> None:
        async with connect(server) as client:
            await add_shopping(client)
            result = await client.call_tool(
                "add_note", {"title": "shopping", "body": "Tea"}
            )
            assert result.is_error
            assert "Choose another title" in result.text
            [note] = await client.read_resource("notes://notes/shopping")
            assert "Milk and bread" in note["text"]

    asyncio.run(run())


def test_wrong_folder_names_the_choices() -> None:
    async def run() -> None:
        async with connect(server) as client:
            arguments = {"title": "shopping", "body": "Tea", "folder": "garage"}
            result = await client.call_tool("add_note", arguments)
            assert result.is_error
            assert '"home" or "work"' in result.text

    asyncio.run(run())
