"""Scripts with dependencies of their own (PEP 723), and processes started in a hostile folder."""

from __future__ import annotations

import json
import os
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


BLOCK = """# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "mcpkit[cli]",
#
#   "cowsay>=1",
# ]
{}# ///
"""


SERVER = """
import sys

import cowsay
from mcpkit import Server

server = Server("cow")
given = sys.argv[1:]


@server.tool
def say() -> list[str]:
    return [cowsay.WORD, *given]
"""


GUARD = '\nif __name__ == "__main__":\n    server.run()\n'


UV = """#!{python}
import json, os, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + chr(10))
os.environ["PYTHONPATH"] = {packages!r}  # what it would have installed
if "--script" in words:
    os.execv({python!r}, [{python!r}, *words[words.index("--script") + 1 :]])
os.execv({mcpkit!r}, [{mcpkit!r}, *words[words.index("mcpkit") + 1 :]])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    [mcpkit, *more] = mcpkit_command()
    if more:
        pytest.skip("mcpkit has no console script here")
    (packages := tmp_path / "packages").mkdir()
    (packages / "cowsay.py").write_text("WORD = 'moo'\n")
    (programs := tmp_path / "bin").mkdir()
    names = {
        "python": sys.executable,
        "log": str(tmp_path / "log"),
        "packages": str(packages),
        "mcpkit": mcpkit,
    }
    (programs / "uv").write_text(UV.format(**names))
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (project := tmp_path / "project").mkdir()
    monkeypatch.chdir(project)
    return project


def mcpkit(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(mcpkit_command(*words), capture_output=True, text=True, check=False, timeout=60)


def log(folder: Path) -> list[list[str]]:
    file = folder.parent / "log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("is_in_project", [False, True], ids=["alone", "in-a-project"])
@pytest.mark.parametrize("source", [SERVER, SERVER + GUARD], ids=["served", "guarded"])
def test_script_is_run_and_installed_with_its_dependencies(
    source: str, is_in_project: bool, folder: Path
) -> None:
    if is_in_project:
        (folder / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\n')
    file = folder / "cow.py"
    file.write_text(BLOCK.format("") + source)
    by_uv = ["run", "--project", str(folder)]
    with_each = [
        *by_uv,
        "--no-project",
        "--python",
        ">=3.10",
        "--with",
        "mcpkit[cli]",
        "--with",
        "cowsay>=1",
        "mcpkit",
    ]
    if source == SERVER:
        entry = [*with_each, "run", str(file)]
        ran = [*with_each, "run", "cow.py", "--"]
    else:
        entry = ran = [*by_uv, "--script", str(file)]

    called = mcpkit("call", "cow.py", "say", "--json")
    assert "moo" in called.stdout, called.stderr
    assert log(folder) == [ran]
    for option in ((), ("--uv",)):
        shown = mcpkit("install", "claude-code", "cow.py", "--name", "cow", "--print", *option)
        assert json.loads(shown.stdout)["mcpServers"]["cow"]["args"] == entry


@pytest.mark.parametrize("place", [".", ""])  # as on Windows, where the current folder is on every PATH
def test_script_never_starts_uv_of_current_folder(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "bin" / "uv").rename(folder / "uv")
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{folder.parent / 'bin'}{os.pathsep}{os.defpath}")
    (folder / "cow.py").write_text(BLOCK.format("") + SERVER)
    for words in (("run", "cow.py"), ("install", "claude-code", "cow.py", "--print", "--uv")):
        ended = mcpkit(*words)
        assert "uv" in ended.stderr
        assert "moo" not in ended.stdout
        assert ended.returncode in {1, 2}
    assert log(folder) == []


SERVER_CURRENT_FOLDER = """
import os
import wares
from mcpkit import Server
from mcpkit.storage import Sqlite

database = Sqlite(os.path.join(os.path.dirname(__file__), "tasks.db"))
server = Server("shop", secret_key="at least sixteen characters", storage=database)


@server.tool(run_in="process")
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
        (folder / "server.py").write_text(SERVER_CURRENT_FOLDER)
    (tmp_path / "other.py").write_text(OTHER)
    (package / "__init__.py").write_text("")
    (package / "server.py").write_text(
        SERVER_CURRENT_FOLDER.replace("import wares", "from . import wares") + "\nserver.run()\n"
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
async def test_process_for_host_executes_no_code_of_current_folder(
    command: Callable[[Path], list[str]], author: Path, hostile: Path
) -> None:
    async with Client(command(author)) as client:
        assert (await client.call_tool("price")).text == "tea"
    assert executed(hostile) == ""


@pytest.mark.parametrize("options", [("--workers", "2"), ("--reload",)], ids=" ".join)
async def test_process_at_port_executes_no_code_of_current_folder(
    options: tuple[str, ...], author: Path, hostile: Path
) -> None:
    command = mcpkit_command("run", str(author / "server.py"), "--http", "--port", str(free_port()), *options)
    with Served(command) as served:
        served.wait_for("Application startup complete", times=1 + ("--workers" in options))
        async with Client(f"{served.origin}/mcp") as client:
            assert (await client.call_tool("price")).text == "tea"
        served.stop()
    assert executed(hostile) == ""


def test_call_executes_no_code_of_current_folder(author: Path, hostile: Path) -> None:
    called = subprocess.run(
        mcpkit_command("call", str(author / "server.py"), "price"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (called.stdout, executed(hostile)) == ("tea\n", ""), called.stderr


def test_worker_executes_no_code_of_current_folder(author: Path, hostile: Path) -> None:
    with Served(mcpkit_command("worker", str(author / "server.py"))) as served:
        served.wait_for("a worker of shop is ready")
        served.stop()
    assert executed(hostile) == ""


def test_script_with_uv_settings_must_run_itself(folder: Path) -> None:
    file = folder / "cow.py"
    settings = '# [tool.uv.sources]\n# cowsay = { path = "../cowsay" }\n'
    file.write_text(BLOCK.format(settings) + SERVER)
    assert 'Add to the file: if __name__ == "__main__": server.run()' in mcpkit("run", "cow.py").stderr
    file.write_text(BLOCK.format(settings) + SERVER + GUARD)
    assert "moo" in mcpkit("call", "cow.py", "say").stdout
