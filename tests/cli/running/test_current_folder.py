"""Processes of mcpkit execute no code of the folder that they are started in.

The folder has a module of the name of each module of the standard library and of each package that is installed, mcpkit
included. Each writes its name to a file when it is executed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from mcpkit import Client
from mcpkit.cli.hosts.wanted import server_at
from mcpkit.client.targets.meant import meant
from mcpkit.client.targets.reached import Process
from mcpkit.common.start import mcpkit_command, module_command
from tests.helpers.redis_server import free_port
from tests.helpers.serving import Served

pytestmark = pytest.mark.anyio

SERVER = """
import os
import wares
from mcpkit import Server, Sqlite

database = Sqlite(os.path.join(os.path.dirname(__file__), "tasks.db"))
server = Server("shop", secret="at least sixteen characters", shared=database)


@server.tool(process=True)
def price() -> str:
    return wares.NAME


@server.tool(task=True)
async def order() -> str:
    return "ordered"
"""
OTHER = """
import wares
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("shop")


@mcp.tool()
def price() -> str:
    return wares.NAME
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    names = {*sys.stdlib_module_names, *packages_distributions(), "mcpkit", "sitecustomize", "usercustomize"}
    for name in names:
        if name.isidentifier():
            source = f"with open({str(folder / 'executed')!r}, 'a') as file: file.write({name + chr(10)!r})\n"
            (folder / f"{name}.py").write_text(source)
    assert len(names) > 300
    return folder


@pytest.fixture
def author(tmp_path: Path, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (hostile / "executed").unlink(missing_ok=True)
    monkeypatch.chdir(hostile)
    package = tmp_path / "store"
    package.mkdir()
    for folder in (tmp_path, package):
        (folder / "wares.py").write_text("NAME = 'tea'\n")
        (folder / "server.py").write_text(SERVER)
    (tmp_path / "other.py").write_text(OTHER)
    (package / "__init__.py").write_text("")
    (package / "server.py").write_text(
        SERVER.replace("import wares", "from . import wares") + "\nserver.run()\n"
    )
    return tmp_path


def executed(folder: Path) -> str:
    marker = folder / "executed"
    return marker.read_text() if marker.exists() else ""


def installed(author: Path, *, is_reloading: bool = False) -> list[str]:
    options = {"env": {}, "headers": {}, "cwd": None, "is_run_by_uv": False}
    _, found = server_at(str(author / "server.py"), **options, is_reloading=is_reloading, name="shop")
    assert isinstance(found, Process)
    return list(found.command)


def of_a_package(author: Path) -> list[str]:
    found = meant(author / "store")
    assert isinstance(found, Process)
    return ["env", *(f"{name}={value}" for name, value in found.env.items()), *found.command]


def bundled(author: Path) -> list[str]:
    bundle = mcpkit_command("bundle", str(author / "server.py"), "-o", str(author / "shop.mcpb"))
    subprocess.run(bundle, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", "shop.mcpb", "unpacked"], check=True, cwd=author)
    return [sys.executable, str(author / "unpacked" / "mcpb_main.py")]


@pytest.mark.parametrize(
    "command",
    [
        installed,
        lambda author: installed(author, is_reloading=True),
        lambda author: module_command("mcpkit", "run", str(author / "server.py")),
        of_a_package,
        bundled,
        lambda author: mcpkit_command("run", "--compat", str(author / "other.py")),
        lambda author: module_command("mcpkit.compat", str(author / "other.py")),
    ],
    ids=["installed", "reloading", "without-a-script", "package", "bundle", "compat", "compat-module"],
)
async def test_a_process_for_a_host_executes_nothing_of_its_folder(
    command: Callable[[Path], list[str]], author: Path, hostile: Path
) -> None:
    async with Client(command(author)) as client:
        assert (await client.call("price")).text == "tea"
    assert executed(hostile) == ""


@pytest.mark.parametrize("options", [("--workers", "2"), ("--reload",)], ids=" ".join)
async def test_processes_at_a_port_execute_nothing_of_their_folder(
    options: tuple[str, ...], author: Path, hostile: Path
) -> None:
    command = mcpkit_command("run", str(author / "server.py"), "--http", "--port", str(free_port()), *options)
    with Served(command) as served:
        served.wait_for("Application startup complete", times=1 + ("--workers" in options))
        async with Client(f"{served.origin}/mcp") as client:
            assert (await client.call("price")).text == "tea"
        served.stop()
    assert executed(hostile) == ""


def test_a_call_executes_nothing_of_the_current_folder(author: Path, hostile: Path) -> None:
    called = subprocess.run(
        mcpkit_command("call", str(author / "server.py"), "price"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (called.stdout, executed(hostile)) == ("tea\n", ""), called.stderr


def test_a_worker_executes_nothing_of_its_folder(author: Path, hostile: Path) -> None:
    with Served(mcpkit_command("worker", str(author / "server.py"))) as served:
        served.wait_for("a worker of shop is ready")
        served.stop()
    assert executed(hostile) == ""


def test_a_module_of_the_server_s_own_folder_replaces_that_of_python(author: Path) -> None:
    (author / "colorsys.py").write_text("NAME = 'own'\n")
    (author / "server.py").write_text(SERVER.replace("wares", "colorsys"))
    called = subprocess.run(
        mcpkit_command("call", str(author / "server.py"), "price"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert called.stdout == "own\n", called.stderr
