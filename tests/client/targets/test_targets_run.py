"""Targets, each of them connected to for real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit import Client, Server
from tests.helpers.node import node_search_path

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SCRIPT = '''
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

TYPESCRIPT = """
process.stdin.on("data", (chunk: Buffer) => {
  const { id, method }: { id?: number; method: string } = JSON.parse(chunk.toString());
  const info = { name: "typed", version: "1" };
  const answer = method === "initialize"
    ? { result: { protocolVersion: "2025-11-25", capabilities: {}, serverInfo: info } }
    : { error: { code: -32601, message: "unknown" } };
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
});
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SCRIPT)
    return tmp_path


async def where(client: Client) -> object:
    async with client:
        return (await client.call("where")).structured


@pytest.mark.slow
async def test_a_script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert await where(Client("server.py", env={"CITY": "Oslo"})) == [str(folder), "Oslo"]


async def test_a_script_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert await where(Client(f"{folder.name}/server.py", cwd="/")) == ["/", ""]


async def test_a_script_of_typescript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", node_search_path())
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, told.strip().lstrip("v").split(".")[:2])) < (22, 18):
        pytest.skip("Node.js runs TypeScript from 22.18 on")
    (tmp_path / "server.ts").write_text(TYPESCRIPT)
    async with Client(tmp_path / "server.ts") as client:
        assert client.server_info["name"] == "typed"


async def test_a_folder(folder: Path) -> None:
    assert await where(Client(folder, cwd=folder)) == [str(folder), ""]


async def test_a_package_whose_modules_import_each_other(folder: Path) -> None:
    (package := folder / "weather").mkdir()
    (package / "__init__.py").touch()
    (package / "tools.py").write_text(SCRIPT.replace("server.run()", ""))
    (package / "__main__.py").write_text("from .tools import server\n\nserver.run()\n")
    assert await where(Client(package, cwd="/")) == ["/", ""]


@pytest.mark.slow
async def test_a_command(folder: Path) -> None:
    assert await where(Client([sys.executable, folder / "server.py"], cwd=folder)) == [str(folder), ""]


@pytest.mark.slow
async def test_a_program(folder: Path) -> None:
    (program := folder / "my-server").write_text(f"#!{sys.executable}\n{SCRIPT}")
    program.chmod(0o755)
    assert await where(Client(program, cwd=folder)) == [str(folder), ""]


@pytest.mark.slow
async def test_the_only_server_of_a_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_an_entry(folder: Path) -> None:
    entry = {"command": sys.executable, "args": ["server.py"]}
    assert await where(Client(entry, cwd=folder)) == [str(folder), ""]


async def test_a_server_object() -> None:
    server = Server("here")

    @server.tool
    def where() -> list[str]:
        return ["here"]

    async with Client(server) as client:
        assert (await client.call("where")).structured == ["here"]


@pytest.mark.parametrize(("said", "options"), [(0.2, {}), (3600, {"timeout": 0.2})])
async def test_an_entry_says_how_long_a_call_may_take(
    folder: Path, said: float, options: dict[str, float]
) -> None:
    entry = {"command": sys.executable, "args": ["server.py"], "timeout": said}
    async with Client(entry, cwd=folder, **options) as client:
        with pytest.raises(TimeoutError, match="tools/call"):
            await client.call("stay")
