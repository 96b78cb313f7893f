"""Targets and configurations of real processes and URLs, and servers of the official SDK that send requests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from mcpkit import (
    Client,
    Context,
    FormRequest,
    InvalidResultError,
    ProtocolError,
    SampleRequest,
    Server,
    ToolError,
    UrlRequest,
)
from tests.helpers import official_asking_server
from tests.helpers.node import node_search_path
from tests.helpers.official_asking_server import make_server
from tests.helpers.serving import in_thread

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
    (tmp_path / "server.py").write_text(WHERE_SCRIPT)
    return tmp_path


async def where(client: Client) -> object:
    async with client:
        return (await client.call("where")).structured


@pytest.mark.slow
async def test_target_script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert await where(Client("server.py", env={"CITY": "Oslo"})) == [str(folder), "Oslo"]


@pytest.mark.slow
async def test_target_typescript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", node_search_path())
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, told.strip().lstrip("v").split(".")[:2])) < (22, 18):
        pytest.skip("Node.js runs TypeScript from 22.18 on")
    (tmp_path / "server.ts").write_text(TYPESCRIPT)
    async with Client(tmp_path / "server.ts") as client:
        assert client.server_info["name"] == "typed"


@pytest.mark.slow
async def test_target_folder(folder: Path) -> None:
    assert await where(Client(folder, cwd=folder)) == [str(folder), ""]


@pytest.mark.slow
async def test_target_package(folder: Path) -> None:
    (package := folder / "weather").mkdir()
    (package / "__init__.py").touch()
    (package / "tools.py").write_text(WHERE_SCRIPT.replace("server.run()", ""))
    (package / "__main__.py").write_text("from .tools import server\n\nserver.run()\n")
    assert await where(Client(package, cwd="/")) == ["/", ""]


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


@pytest.mark.slow
@pytest.mark.parametrize(("said", "options"), [(0.2, {})])
async def test_target_entry_timeout(folder: Path, said: float, options: dict[str, float]) -> None:
    entry = {"command": sys.executable, "args": ["server.py"], "timeout": said}
    async with Client(entry, cwd=folder, **options) as client:
        with pytest.raises(TimeoutError, match="tools/call"):
            await client.call("stay")


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


def maps() -> Server:
    server = Server("Maps")

    @server.tool
    async def find(place: str, ctx: Context) -> str:
        await ctx.info("looking")
        return f"{place} is here"

    @server.resource("maps://world")
    def world() -> str:
        return "round"

    @server.resource("shared://about")
    def about() -> str:
        return "of maps"

    return server


def both(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"weather": weather(), "maps": maps(), **more}}


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


@pytest.mark.slow
async def test_configuration_of_process_and_url_with_tool_filters(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SCRIPT)
    with in_thread(weather().asgi()) as url:
        servers = {
            "process": {"command": sys.executable, "args": ["server.py"], "excludeTools": ["crash", "say"]},
            "remote": {"url": f"{url}/mcp", "includeTools": ["forecast"]},
        }
        (path := tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        async with Client(path) as client:
            assert [tool["name"] for tool in await client.list_tools()] == ["process_add", "remote_forecast"]
            assert (await client.call("process_add", {"a": 1, "b": 2})).structured == 3
            assert (await client.call("remote_forecast", {"city": "Oslo"})).text == "sunny in Oslo"
            with pytest.raises(ProtocolError, match="leaves out the tool crash of the server process"):
                await client.call("process_crash")
            with pytest.raises(ProtocolError, match="leaves out the tool delete_all of the server remote"):
                await client.call("remote_delete_all")


@pytest.mark.slow
async def test_configuration_unreachable_server_is_tried_again(tmp_path: Path) -> None:
    late = {"command": sys.executable, "args": ["server.py"], "cwd": str(tmp_path)}
    async with Client(both(late=late)) as client:
        assert list(client.failures) == ["late"]
        (tmp_path / "server.py").write_text(SCRIPT)
        assert (await client.call("late_add", {"a": 1, "b": 2})).structured == 3
        assert client.failures == {}
        assert "late_add" in [tool["name"] for tool in await client.list_tools()]


Make = Callable[..., Any]


@pytest.fixture(params=["stdio 2025-11-25", "http 2026-07-28"])
def make(request: pytest.FixtureRequest) -> Make:
    transport, _, revision = request.param.partition(" ")

    @asynccontextmanager
    async def client(**options: Any) -> AsyncIterator[Client]:
        if transport == "stdio":
            command = [sys.executable, str(Path(official_asking_server.__file__))]
            async with Client(command, revision=revision, **options) as made:
                yield made
        else:
            with in_thread(make_server().streamable_http_app()) as origin:
                async with Client(f"{origin}/mcp", revision=revision, **options) as made:
                    yield made

    return client


async def test_official_server_requests_are_answered(make: Make) -> None:
    forms: list[FormRequest] = []

    async def fill_in(form: FormRequest) -> dict[str, Any]:
        forms.append(form)
        return {"city": "Rome"}

    def speak(request: SampleRequest) -> str:
        return request.text.upper()

    async with make(elicit=fill_in, sample=speak, roots=["/srv"]) as client:
        assert (await client.call("plan")).text == "Rome 3 food WHAT ABOUT ROME? ['file:///srv']"
    (form,) = forms
    assert form.message == "Where to?"
    assert [(field.name, field.kind, field.default) for field in form.fields] == [
        ("city", "string", None),
        ("days", "integer", 3),
        ("style", "choice", "food"),
    ]


async def test_official_server_pages_are_shown() -> None:
    seen: list[str] = []

    def visit(page: UrlRequest) -> bool:
        seen.append(page.url)
        return True

    with in_thread(make_server().streamable_http_app()) as origin:
        async with Client(f"{origin}/mcp", revision="2025-11-25", elicit_url=visit) as client:
            assert (await client.call("visit")).text == "accept"
            assert (await client.call("files")).text == "a.txt"
    assert seen == ["https://example.com/1", "https://example.com/2"]


@dataclass
class Bill:
    items: list[str]
    total: float
    tip: float | None = None


async def test_official_server_tools_and_results(make: Make) -> None:
    async with make() as client:
        tools = await client.tools()
        assert await tools["bill"](items=["tea", "bun"], tip=1.5) == {
            "items": ["tea", "bun"], "total": 19.0, "tip": 1.5,
        }  # fmt: skip
        assert repr(tools["bill"]) == "<tool bill(*, items: list, tip: float | None = None, **arguments)>"
        assert await tools["count"]() == 2
        assert await client.call("bill", {"items": ["tea"]}, into=Bill) == Bill(["tea"], 9.5)
        assert await client.call("count", into=int) == 2
        with pytest.raises(InvalidResultError, match="bill has answered is no int"):
            await client.call("bill", {"items": []}, into=int)
        with pytest.raises(ToolError, match="items"):
            await tools["bill"](items=5)
