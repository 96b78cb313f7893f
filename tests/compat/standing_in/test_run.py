"""`python -m mcpkit.compat`: what it runs, and how that looks to what is run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit import Client

ROOT = Path(__file__).parents[3]
TELL = """
import json, sys
from mcp.types import Tool
print(json.dumps({"name": __name__, "argv": sys.argv, "path": sys.path[0], "file": __file__,
                  "main": sys.modules["__main__"].__dict__ is globals(), "tool": Tool.__module__}))
"""


NOTHING = "there is no file, no command of an installed package and no module to run called"


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "mcpkit.compat", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={"PYTHONPATH": f"{ROOT}:{cwd}", "PATH": ""},
        stdin=subprocess.DEVNULL,
    )


def told(*arguments, cwd):
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "script.py").write_text(TELL)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "server.py").write_text(
        TELL + "def main():\n    return 3 if sys.argv[1:] else None\n"
    )
    information = tmp_path / "published-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: published\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[console_scripts]\npublished-server = package.server:main\n"
    )
    return tmp_path


def test_a_file_runs_as_under_python(folder):
    script = "scripts/script.py"
    assert told(script, "--port", "3", cwd=folder) == {
        "name": "__main__",
        "argv": [script, "--port", "3"],
        "path": str(folder / "scripts"),
        "file": script,
        "main": True,
        "tool": "mcpkit.compat.types",
    }


@pytest.mark.parametrize("arguments", [["-m", "package.server"], ["package.server"]], ids=" ".join)
def test_a_module_runs_as_under_python(folder, arguments):
    assert told(*arguments, "x", cwd=folder) == {
        "name": "__main__",
        "argv": [str(folder / "package" / "server.py"), "x"],
        "path": str(folder),
        "file": str(folder / "package" / "server.py"),
        "main": True,
        "tool": "mcpkit.compat.types",
    }


def test_a_command_of_an_installed_package_runs(folder):
    done = run("published-server", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert (seen["name"], seen["argv"]) == ("package.server", ["published-server"])
    assert seen["path"] == str(Path(sys.executable).parent)
    (folder / "published-server").mkdir()  # as in a checkout
    assert run("published-server", "--fail", cwd=folder).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["nothing.py"],
            f"{NOTHING} 'nothing.py'",
        ),
        (
            ["no-server"],
            f"{NOTHING} 'no-server'",
        ),
        (["-m", "package.nothing"], "there is no module to run called 'package.nothing'"),
        (["-m", "no.package"], "there is no module to run called 'no.package'"),
        (["-m"], "-m wants the name of a module"),
        (
            ["scripts"],
            f"{NOTHING} 'scripts'",
        ),
        (["-m", "package"], "there is no module to run called 'package'"),
        (["scripts/script.py:weather"], "'scripts/script.py' has no FastMCP object 'weather'"),
        (["package.server:weather"], "'package.server' has no FastMCP object 'weather'"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_command_lines_are_told_so(folder, arguments, error):
    done = run(*arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.strip() == f"python -m mcpkit.compat: {error}"


def test_mcp_that_was_imported_before_ends_it(folder):
    (folder / "mcp.py").write_text("")
    (folder / "sitecustomize.py").write_text("import mcp")
    done = run("scripts/script.py", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "python -m mcpkit.compat: 'mcp' has been imported before mcpkit could stand in"
    )
    assert f"by sitecustomize ({folder / 'sitecustomize.py'})" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_says_how_it_is_used(folder):
    done = run("--help", cwd=folder)
    assert done.returncode == 0
    assert "python -m mcpkit.compat server.py [ARGUMENTS]" in done.stdout
    assert run(cwd=folder).returncode == 2


def test_errors_of_the_script_are_its_own(folder):
    (folder / "broken.py").write_text("from mcp.server.websocket import websocket_server\n")
    done = run("broken.py", cwd=folder)
    assert done.returncode == 1
    assert 'File "broken.py", line 1, in <module>' in done.stderr
    assert 'serve HTTP by `mcp.run(transport="streamable-http")`' in done.stderr


SERVER = """
import sys
from mcp.server.fastmcp import FastMCP

{name} = FastMCP("weather")

@{name}.tool()
def measure(place: str) -> int:
    return len(place)

print("made", file=sys.stderr)
{more}
"""


async def listed(folder, *arguments):
    """Return what tools the server lists, and how often its file was run."""
    lines = []
    command = [sys.executable, "-m", "mcpkit.compat", *arguments]
    async with Client(
        command, cwd=folder, stderr=lines.append, env={"PYTHONPATH": f"{ROOT}:{folder}"}
    ) as client:
        tools = await client.list_tools()
    return [tool["name"] for tool in tools], lines.count("made")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "more", "arguments"),
    [
        ("mcp", "mcp.run()", ["served.py"]),
        ("mcp", "if __name__ == '__main__':\n    mcp.run(transport='stdio')", ["served.py", "--fast"]),
        ("mcp", "", ["served.py"]),
        ("server", "app = 3", ["served.py"]),
        ("app", "", ["-m", "served"]),
        ("weather", "", ["served.py:weather"]),
        ("weather", "", ["served:weather"]),
    ],
)
async def test_servers_are_served_whether_they_run_themselves_or_not(tmp_path, name, more, arguments):
    (tmp_path / "served.py").write_text(SERVER.format(name=name, more=more))
    assert await listed(tmp_path, *arguments) == (["measure"], 1)


def test_a_server_that_has_run_is_not_run_again(tmp_path):
    (tmp_path / "served.py").write_text(SERVER.format(name="mcp", more="mcp.run()\nprint('over')"))
    done = run("served.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "over\n")


def test_the_tests_of_a_server_run(tmp_path):
    (tmp_path / "test_server.py").write_text(
        "import asyncio\n"
        "from mcp.server.fastmcp import FastMCP\n"
        "mcp = FastMCP('weather')\n"
        "@mcp.tool()\n"
        "def measure(place: str) -> int: return 3\n"
        "def test_listing():\n"
        "    [listed] = asyncio.run(mcp.list_tools())\n"
        "    assert type(listed).__module__ == 'mcpkit.compat.types'\n"
    )
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_server.py", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


COLLECTED = """
import gc, json, sys
from mcp.server.fastmcp import FastMCP
frozen = gc.get_freeze_count()
FastMCP("weather").tool("three")(lambda: 3)
print(json.dumps({"frozen": frozen > 10_000, "more": gc.get_freeze_count() > frozen, "enabled": gc.isenabled()}))
"""


def test_what_is_imported_is_kept_from_the_garbage_collector_which_looks_at_all_else(tmp_path):
    (tmp_path / "server.py").write_text(COLLECTED)
    assert told("server.py", cwd=tmp_path) == {"frozen": True, "more": False, "enabled": True}


def test_a_process_that_stands_in_for_itself_keeps_its_garbage_collector_as_it_is(tmp_path):
    (tmp_path / "alone.py").write_text("import mcpkit.compat\nmcpkit.compat.install()\n" + COLLECTED)
    done = subprocess.run(
        [sys.executable, "alone.py"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert json.loads(done.stdout) == {"frozen": False, "more": False, "enabled": True}, done.stderr


IDLE = """
import asyncio, json, sys
from mcp.server.fastmcp import FastMCP
idle = FastMCP("idle")

@idle.tool()
def add(a: int, b: int) -> int:
    return a + b

asyncio.run(idle.list_tools())
print(json.dumps([name for name in sys.modules if name.startswith("mcpkit.compat.types.")]))
"""


def test_classes_of_content_wait_until_there_is_some(tmp_path):
    (tmp_path / "server.py").write_text(IDLE)
    assert set(told("server.py", cwd=tmp_path)) == {
        "mcpkit.compat.types.basic",
        "mcpkit.compat.types.messages",
        "mcpkit.compat.types.tools",
        "mcpkit.compat.types.unbuilt",
    }
