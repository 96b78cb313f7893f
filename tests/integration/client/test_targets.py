"""Targets and configurations of real processes and URLs, and servers of the official SDK that send requests."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

import pytest

from mcpkit import Client, Server

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


def weather() -> Server:
    server = Server("Weather", instructions="Ask for a city.")

    @server.tool
    def forecast(city: str) -> str:
        return f"sunny in {city}"

    @server.tool
    def delete_all() -> str:
        return "deleted"

    @server.prompt
    def report(city: Literal["Oslo", "Odda"]) -> str:
        return f"Write about {city}"

    @server.resource("weather://{city}")
    def of_city(city: Literal["Oslo", "Odda"]) -> str:
        return f"sunny in {city}"

    @server.resource("shared://about")
    def about() -> str:
        return "of weather"

    return server


SCRIPT = """
from mcpkit import Context, Server

server = Server("process")


@server.tool
async def say(level: str, ctx: Context) -> None:
    await ctx.log(level, level)


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@server.tool
def crash() -> None:
    import os
    os._exit(3)


server.run()
"""
