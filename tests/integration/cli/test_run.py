"""mcpkit run: servers of any SDK, functions that make servers, workers, errors in files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mcpkit import Client
from mcpkit.cli.statuses import CommandError
from mcpkit.cli.targets.served import found
from mcpkit.common.start import mcpkit_command
from mcpkit.transports.http.workers import CURE
from tests.helpers.redis_server import free_port
from tests.helpers.serving import Served

BODY = '''
    server = Server("shop", version="1.0.0")

    @server.tool
    def price() -> str:
        """Say what it costs."""
        return "tea"

    return server
'''

pytestmark = pytest.mark.anyio


NATIVE = """
import sys
from mcpkit import Server

shop = Server("shop")
started = list(sys.argv)

@shop.tool
def given() -> list[str]:
    return started

@shop.tool
def process() -> int:
    import os
    return os.getpid()

@shop.tool
def modules() -> list[str]:
    return list(sys.modules)
"""


SCRIPT = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("official")

@server.tool()
def given() -> list[str]:
    return [__name__, *sys.argv]
"""


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "run", *map(str, words)]


async def test_run_imports_only_what_serving_needs(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(NATIVE + "\nif __name__ == '__main__':\n    shop.run()\n")
    async with Client(command(file)) as client, Client([sys.executable, str(file)]) as plain:
        ours, least = [
            set(await each.call_tool("modules", result_type=list[str])) for each in (client, plain)
        ]
    packages = {name.partition(".")[0] for name in ours - least}
    assert {name for name in packages if name not in sys.stdlib_module_names} == {"click", "mcpkit", "server"}
    rooms = {name.rpartition(".")[0] for name in ours - least if name.startswith("mcpkit.")}
    assert {room for room in rooms if not room.startswith("mcpkit.cli")} <= {
        *("mcpkit", "mcpkit.client", "mcpkit.client.targets", "mcpkit.common"),
    }
    assert "mcpkit.cli.reloading" not in rooms


@pytest.mark.parametrize(
    ("source", "options", "status", "message"),
    [
        ("x = 1\ndef broken(:\n", (), 1, "mcpkit: FILE:2: SyntaxError: invalid syntax\n"),
        ("x = 1\n1 / 0\n", (), 1, "mcpkit: FILE:2: ZeroDivisionError: division by zero\n"),
        (
            "import absent_thing\n",
            (),
            1,
            "mcpkit: FILE:1: ModuleNotFoundError: No module named 'absent_thing'\n",
        ),
        (
            "if __name__ == '__main__':\n    1 / 0\n",
            (),
            1,
            "mcpkit: FILE:2: ZeroDivisionError: division by zero\n",
        ),
        ("if __name__ == '__main__':\n    raise SystemExit(7)\n", (), 7, ""),
        ("x = 1\n", (), 2, "mcpkit: FILE has no mcpkit Server\n"),
        ("x = 1\n", ("--http",), 2, "mcpkit: FILE has no mcpkit Server\n"),
        (
            "if __name__ == '__main__':\n    1 / 0\n",
            ("--http",),
            1,
            "mcpkit: FILE has no mcpkit Server, so it chooses its own transport. Omit --http and",
        ),
        (NATIVE, ("--port", "1"), 1, "--host, --port and --workers need an HTTP server. Add --http\n"),
        (
            NATIVE,
            ("--http", "--reload", "--workers", "2"),
            1,
            "--reload uses one process. Omit --workers",
        ),
        (NATIVE, ("--http", "--compat"), 1, "the file chooses its own transport. Omit them\n"),
        (
            NATIVE,
            ("--http", "--workers", "2", "--port", "0"),
            1,
            "a fixed port. Add --port, for example --port 8000\n",
        ),
        (
            NATIVE + "\n@shop.tool\ndef x(a: 'Absent') -> str: ...\n",
            (),
            1,
            "mcpkit: UnresolvedHint: x: the type hint 'Absent' is not",
        ),
    ],
)
def test_run_errors_are_one_line(
    tmp_path: Path, source: str, options: Sequence[str], status: int, message: str
) -> None:
    file = tmp_path / "server.py"
    file.write_text(source)
    ended = subprocess.run(
        command(file, *options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == status, ended.stderr
    assert message.replace("FILE", str(file)) in ended.stderr
    assert (ended.stderr == "") is (message == "")
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


async def test_run_http_serves_at_port(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(NATIVE)
    with Served(command(file, "--http", "--port", "0")) as served:
        async with Client(f"{served.origin}/mcp") as client:
            assert await client.call_tool("process", result_type=int) == served.process.pid
        served.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="uvicorn's workers are told to end by signals")
@pytest.mark.parametrize("settings", [{}, {"WEB_CONCURRENCY": 2}], ids=["option", "environment"])
async def test_run_workers_share_port_and_secret(tmp_path: Path, settings: dict[str, int]) -> None:
    file = tmp_path / "server.py"
    file.write_text(NATIVE)
    options = [] if settings else ["--workers", "2"]
    with Served(command(file, "--sse", "--port", str(free_port()), *options), **settings) as served:
        served.wait_for("Application startup complete", times=2)
        assert CURE in served.notes
        processes = set()
        while len(processes) < 2:
            async with Client(f"{served.origin}/mcp", protocol_version="2025-11-25") as client:
                processes.add(await client.call_tool("process", result_type=int))
        assert served.process.pid not in processes
        served.stop()


HEAD = "from __future__ import annotations\nimport mcpkit\nfrom mcpkit import Server\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(source: str) -> str:
        file = tmp_path / f"served_{tmp_path.name}_{len(list(tmp_path.iterdir()))}.py"
        file.write_text(source)
        return str(file)

    return write


def call(*words: str) -> str:
    done = subprocess.run(mcpkit_command("call", *words), capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def test_run_serves_function(write: Callable[[str], str]) -> None:
    assert call(write(f"{HEAD}\nasync def create() -> Server:{BODY}"), "price") == "tea\n"


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (f"def create(name) -> Server:{BODY}", ":create", "create() has parameters without defaults. Name a"),
        ("def create(): return 'tea'", ":create", "create() must return a Server, got a str"),
        ("async def create(): return None", ":create", "create() must return a Server, got a NoneType"),
        ("def create(): raise OSError('no key')", ":create", "py:4: OSError: no key"),
        ("async def create(): raise OSError('no key')", ":create", "py:4: OSError: no key"),
        (f"def one() -> Server:{BODY}\ndef two() -> Server:{BODY}", "", "has 2 servers. Write "),
        (f"def create():{BODY}", "", "has no mcpkit Server"),
        (f"def create(name) -> Server:{BODY}", "", "has no mcpkit Server"),
    ],
)
def test_function_without_server_raises(
    write: Callable[[str], str], source: str, name: str, message: str
) -> None:
    with pytest.raises(CommandError) as raised:
        found(write(HEAD + source) + name)
    assert message in str(raised.value)
