"""mcpkit run: functions that make servers, workers, errors in files, scripts with dependencies, hostile folders."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from mcpkit import Client
from mcpkit._utils.python_safe_path import mcpkit_command, module_command
from mcpkit.cli.exit_status import CommandError
from mcpkit.cli.install import resolve_install_target
from mcpkit.cli.server_loader import load_server
from mcpkit.client.targets.infer_target import StdioServerConfig, infer_target
from mcpkit.transports.http.app_options import SHARING_ADVICE
from tests.helpers.redis_server import free_port
from tests.helpers.serving import Served

NATIVE = """
import os, sys
from mcpkit import Server

shop = Server("shop")

@shop.tool
def process() -> int:
    return os.getpid()

@shop.tool
def modules() -> list[str]:
    return list(sys.modules)
"""


def run_command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "run", *map(str, words)]


def mcpkit(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = mcpkit_command(*map(str, words))
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "server.py"
    file.write_text(NATIVE)
    return file


async def test_run_imports_only_what_serving_needs(file: Path) -> None:
    file.write_text(NATIVE + "\nif __name__ == '__main__':\n    shop.run()\n")
    async with Client(run_command(file)) as client, Client([sys.executable, str(file)]) as plain:
        ours, least = [
            set(await each.call_tool("modules", result_type=list[str])) for each in (client, plain)
        ]
    packages = {name.partition(".")[0] for name in ours - least}
    assert packages - sys.stdlib_module_names == {"click", "mcpkit", "server"}
    folders = {name.rpartition(".")[0] for name in ours - least if name.startswith("mcpkit.")}
    allowed = {"mcpkit", "mcpkit.client", "mcpkit.client.targets", "mcpkit._utils"}
    assert {each for each in folders if not each.startswith("mcpkit.cli")} <= allowed
    assert "mcpkit.cli.reload" not in folders


MAIN = "if __name__ == '__main__':\n    "
NO_SERVER = "mcpkit: FILE has no mcpkit Server"


@pytest.mark.parametrize(("source", "options", "status", "message"), [
    ("x = 1\ndef broken(:\n", "", 1, "mcpkit: FILE:2: SyntaxError: invalid syntax\n"),
    ("x = 1\n1 / 0\n", "", 1, "mcpkit: FILE:2: ZeroDivisionError: division by zero\n"),
    ("import absent_thing\n", "", 1, "FILE:1: ModuleNotFoundError: No module named 'absent_thing'\n"),
    (f"{MAIN}1 / 0\n", "", 1, "mcpkit: FILE:2: ZeroDivisionError: division by zero\n"),
    (f"{MAIN}raise SystemExit(7)\n", "", 7, ""),
    ("x = 1\n", "", 2, f"{NO_SERVER}\n"),
    ("x = 1\n", "--http", 2, f"{NO_SERVER}\n"),
    (f"{MAIN}1 / 0\n", "--http", 1, f"{NO_SERVER}, so it chooses its own transport. Omit --http and"),
    (NATIVE, "--port 1", 1, "--host, --port and --workers need an HTTP server. Add --http\n"),
    (NATIVE, "--http --reload --workers 2", 1, "--reload uses one process. Omit --workers"),
    (NATIVE, "--http --compat", 1, "the file chooses its own transport. Omit them\n"),
    (NATIVE, "--http --workers 2 --port 0", 1, "a fixed port. Add --port, for example --port 8000\n"),
    (
        f"{NATIVE}\n@shop.tool\ndef x(a: 'A') -> str: ...\n",
        "",
        1,
        "UnresolvedHint: x: the type hint 'A' is",
    ),
])  # fmt: skip
def test_run_errors_are_one_line(file: Path, source: str, options: str, status: int, message: str) -> None:
    file.write_text(source)
    ended = mcpkit("run", file, *options.split())
    assert (ended.returncode, ended.stdout) == (status, ""), ended.stderr
    assert message.replace("FILE", str(file)) in ended.stderr
    assert (ended.stderr == "") is (message == "")
    assert "Traceback" not in ended.stderr


async def call(served: Served, tool: str) -> str:
    """Call a tool; uvicorn logs that a worker has started before the worker listens."""
    while served.process.poll() is None:
        with suppress(ConnectionError):
            async with Client(f"{served.origin}/mcp", protocol_version="2025-11-25") as client:
                return (await client.call_tool(tool)).text
    raise AssertionError(served.notes)


@pytest.mark.skipif(sys.platform == "win32", reason="uvicorn's workers are stopped by signals")
@pytest.mark.parametrize("settings", [{}, {"WEB_CONCURRENCY": 2}], ids=["option", "environment"])
async def test_run_workers_share_port_and_secret(file: Path, settings: dict[str, int]) -> None:
    options = [] if settings else ["--workers", "2"]
    with Served(run_command(file, "--sse", "--port", str(free_port()), *options), **settings) as served:
        served.wait_for("Application startup complete", times=2)
        assert SHARING_ADVICE in served.notes
        processes = set()
        while len(processes) < 2:
            processes.add(await call(served, "process"))
        assert str(served.process.pid) not in processes
        served.stop()


MAKES_SERVER = '''-> Server:
    server = Server("shop")

    @server.tool
    def price() -> str:
        """Say what it costs."""
        return "tea"

    return server
'''


def test_run_serves_function(file: Path) -> None:
    file.write_text(f"from mcpkit import Server\n\nasync def create() {MAKES_SERVER}")
    assert mcpkit("call", file, "price").stdout == "tea\n"


@pytest.mark.parametrize(("source", "name", "message"), [
    (f"def create(name) {MAKES_SERVER}", ":create", "create() has parameters without defaults. Name a"),
    ("def create(): return 'tea'", ":create", "create() must return a Server, got a str"),
    ("async def create(): return None", ":create", "create() must return a Server, got a NoneType"),
    ("def create(): raise OSError('no key')", ":create", "py:2: OSError: no key"),
    ("async def create(): raise OSError('no key')", ":create", "py:2: OSError: no key"),
    (f"def one() {MAKES_SERVER}\ndef two() {MAKES_SERVER}", "", "has 2 servers. Write "),
    (f"def create() {MAKES_SERVER.replace('-> Server', '')}", "", "has no mcpkit Server"),
    (f"def create(name) {MAKES_SERVER}", "", "has no mcpkit Server"),
])  # fmt: skip
def test_function_without_server_raises(source: str, name: str, message: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / f"{tmp_path.name}.py"
    file.write_text(f"from mcpkit import Server\n{source}")
    with pytest.raises(CommandError) as raised:
        load_server(f"{file}{name}")
    assert message in str(raised.value)


# Scripts with dependencies of their own (PEP 723)

BLOCK = """# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "mcpkit[cli]",
#
#   "cowsay>=1",
# ]
{}# ///
"""
COW = """
import cowsay
from mcpkit import Server

server = Server("cow")


@server.tool
def say() -> str:
    return cowsay.WORD
"""
GUARD = f"\n{MAIN}server.run()\n"
UV = """#!{python}
import json, os, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + chr(10))
os.environ["PYTHONPATH"] = {packages!r}  # as if it had installed them
if "--script" in words:
    os.execv({python!r}, [{python!r}, *words[words.index("--script") + 1 :]])
os.execv({mcpkit!r}, [{mcpkit!r}, *words[words.index("mcpkit") + 1 :]])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program `uv` on the PATH that logs its arguments to `uv.log`."""
    [mcpkit, *more] = mcpkit_command()
    if more:
        pytest.skip("mcpkit has no console script here")
    for name in ("packages", "bin", "project"):
        (tmp_path / name).mkdir()
    (tmp_path / "packages" / "cowsay.py").write_text("WORD = 'moo'\n")
    uv, log, packages = tmp_path / "bin" / "uv", str(tmp_path / "uv.log"), str(tmp_path / "packages")
    uv.write_text(UV.format(python=sys.executable, log=log, packages=packages, mcpkit=mcpkit))
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.parametrize("is_in_project", [False, True], ids=["alone", "in-a-project"])
@pytest.mark.parametrize("source", [COW, COW + GUARD], ids=["served", "guarded"])
def test_script_is_run_and_installed_with_its_dependencies(source, is_in_project, project) -> None:
    if is_in_project:
        (project / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\n')
    file = project / "cow.py"
    file.write_text(BLOCK.format("") + source)
    entry = ran = ["run", "--project", str(project), "--script", str(file)]
    if source == COW:
        packages = ["--with", "mcpkit[cli]", "--with", "cowsay>=1"]
        run = [*entry[:3], "--no-project", "--python", ">=3.10", *packages, "mcpkit", "run"]
        entry, ran = [*run, str(file)], [*run, "cow.py", "--"]
    called = mcpkit("call", "cow.py", "say")
    assert called.stdout == "moo\n", called.stderr
    assert (project.parent / "uv.log").read_text() == f"{json.dumps(ran)}\n"
    for option in ((), ("--uv",)):
        shown = mcpkit("install", "claude-code", "cow.py", "--name", "cow", "--print", *option)
        assert json.loads(shown.stdout)["mcpServers"]["cow"]["args"] == entry


@pytest.mark.parametrize("place", [".", ""])  # as on Windows, where the current folder is on every PATH
def test_script_never_starts_uv_of_current_folder(project: Path, place: str, monkeypatch) -> None:
    (project.parent / "bin" / "uv").rename(project / "uv")
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{project.parent / 'bin'}{os.pathsep}{os.defpath}")
    (project / "cow.py").write_text(BLOCK.format("") + COW)
    for words in (("run", "cow.py"), ("install", "claude-code", "cow.py", "--print", "--uv")):
        ended = mcpkit(*words)
        assert "uv" in ended.stderr
        assert ended.returncode in {1, 2}
    assert not (project.parent / "uv.log").exists()


def test_script_with_uv_settings_must_run_itself(project: Path) -> None:
    script = BLOCK.format('# [tool.uv.sources]\n# cowsay = { path = "../cowsay" }\n') + COW
    (project / "cow.py").write_text(script)
    message = 'Add to the file: if __name__ == "__main__": server.run()'
    assert message in mcpkit("run", "cow.py").stderr
    (project / "cow.py").write_text(script + GUARD)
    assert mcpkit("call", "cow.py", "say").stdout == "moo\n"


# Processes that start in a hostile folder

WARES = """
import os
import wares
from mcpkit import Server
from mcpkit.storage import Sqlite

database = Sqlite(os.path.join(os.path.dirname(__file__), "tasks.db"))
server = Server("shop", secret_key="at least sixteen characters", storage=database)


@server.tool(run_in="process")
def price() -> str:
    return wares.NAME


server.tool(lambda: "ordered", name="order", task=True)
"""
OFFICIAL = """
import wares
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("shop")


@mcp.tool()
def price() -> str:
    return wares.NAME
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module for each name of the standard library and of installed packages."""
    folder = tmp_path_factory.mktemp("hostile")
    names = {*sys.stdlib_module_names, *packages_distributions(), "mcpkit", "sitecustomize", "usercustomize"}
    for name in filter(str.isidentifier, names):
        source = f"with open({str(folder / 'executed')!r}, 'a') as file: file.write({name + chr(10)!r})\n"
        (folder / f"{name}.py").write_text(source)
    assert len(names) > 300
    return folder


@pytest.fixture
def author(tmp_path: Path, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with servers; the current folder is the hostile one."""
    (hostile / "executed").unlink(missing_ok=True)
    monkeypatch.chdir(hostile)
    (package := tmp_path / "store").mkdir()
    for folder in (tmp_path, package):
        (folder / "wares.py").write_text("NAME = 'tea'\n")
    (tmp_path / "server.py").write_text(WARES)
    (tmp_path / "other.py").write_text(OFFICIAL)
    (package / "__init__.py").touch()
    relative = WARES.replace("import wares", "from . import wares")
    (package / "server.py").write_text(relative + "\nserver.run()\n")
    return tmp_path


def executed(folder: Path) -> str:
    marker = folder / "executed"
    return marker.read_text() if marker.exists() else ""


def installed(author: Path, *, is_reloading: bool = False) -> Sequence[str]:
    options = {"env": {}, "headers": {}, "cwd": None, "uses_uv": False}
    _, found = resolve_install_target(str(author / "server.py"), **options, reloads=is_reloading, name="shop")
    assert isinstance(found, StdioServerConfig)
    return found.command


def of_a_package(author: Path) -> Sequence[str]:
    found = infer_target(author / "store")
    assert isinstance(found, StdioServerConfig)
    return ["env", *(f"{name}={value}" for name, value in found.env.items()), *found.command]


def bundled(author: Path) -> Sequence[str]:
    mcpkit("bundle", author / "server.py", "-o", author / "shop.mcpb")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", "shop.mcpb", "unpacked"], check=True, cwd=author)
    return [sys.executable, str(author / "unpacked" / "mcpb_main.py")]


@pytest.mark.parametrize(
    "command",
    [
        installed, lambda author: installed(author, is_reloading=True),
        lambda author: module_command("mcpkit", "run", str(author / "server.py")), of_a_package, bundled,
        lambda author: mcpkit_command("run", "--compat", str(author / "other.py")),
        lambda author: module_command("mcpkit.compat", str(author / "other.py")),
    ],
    ids=["installed", "reloading", "without-a-script", "package", "bundle", "compat", "compat-module"],
)  # fmt: skip
async def test_process_for_host_executes_no_code_of_current_folder(command, author, hostile) -> None:
    async with Client(list(command(author))) as client:
        assert (await client.call_tool("price")).text == "tea"
    assert executed(hostile) == ""


@pytest.mark.parametrize("options", [("--workers", "2"), ("--reload",)], ids=" ".join)
async def test_process_at_port_executes_no_code_of_current_folder(options, author, hostile) -> None:
    command = mcpkit_command("run", str(author / "server.py"), "--http", "--port", str(free_port()), *options)
    with Served(command) as served:
        served.wait_for("Application startup complete", times=1 + ("--workers" in options))
        assert await call(served, "price") == "tea"
        served.stop()
    assert executed(hostile) == ""


def test_call_and_worker_execute_no_code_of_current_folder(author: Path, hostile: Path) -> None:
    assert mcpkit("call", author / "server.py", "price").stdout == "tea\n"
    with Served(mcpkit_command("worker", str(author / "server.py"))) as served:
        served.wait_for("a worker of shop is ready")
        served.stop()
    assert executed(hostile) == ""
