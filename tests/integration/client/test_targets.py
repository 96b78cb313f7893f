"""Targets and configurations of real processes and URLs, and servers of the official SDK that send requests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcpkit import Client

pytestmark = pytest.mark.anyio

WHERE_SCRIPT = '''
import asyncio
import os

from mcpkit import Server

server = Server("where")


@server.tool
def where() -> list[str]:
    """Say where it runs, and what it was told."""
    return [os.getcwd(), os.environ.get("CITY", "")]


@server.tool
async def stay() -> None:
    """Never end."""
    await asyncio.Event().wait()


server.run()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(WHERE_SCRIPT)
    return tmp_path


async def where(client: Client) -> object:
    async with client:
        return (await client.call_tool("where")).structured_content


@pytest.mark.slow
async def test_target_script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert await where(Client("server.py", env={"CITY": "Oslo"})) == [str(folder), "Oslo"]


@pytest.mark.slow
async def test_target_configuration_with_variables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWN", "Bergen")
    (folder / ".vscode").mkdir()
    (folder / "inside").mkdir()
    entry = {
        "command": sys.executable,
        "args": ["${workspaceFolder}/server.py"],
        "env": {"CITY": "${env:TOWN}"},
        "cwd": "inside",
    }
    (path := folder / ".vscode" / "mcp.json").write_text(
        f"// of the editor\n{json.dumps({'servers': {'where': entry}})}"
    )
    assert await where(Client(path)) == [str(folder / "inside"), "Bergen"]
    assert await where(Client(path, env={"CITY": "Oslo"})) == [str(folder / "inside"), "Oslo"]
