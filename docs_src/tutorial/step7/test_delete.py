import asyncio
from pathlib import Path

import pytest

from mcpkit import Client
from server import server


@pytest.mark.parametrize("agrees", [True, False])
def test_note_is_deleted_only_if_the_user_agrees(
    agrees: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_DB", str(tmp_path / "notes.db"))

    async def run() -> None:
        async with Client(
            server, elicitation_handler=lambda form: {"value": agrees}
        ) as client:
            await client.call_tool(
                "add_note", {"title": "tea", "body": "Green"}
            )
            await client.call_tool("delete_note", {"title": "tea"})
            [titles] = await client.read_resource("notes://titles")
            assert ("tea" in titles["text"]) is not agrees

    asyncio.run(run())
