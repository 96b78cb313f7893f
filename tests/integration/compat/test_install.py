"""mcpkit.compat.install() and python -m mcpkit.compat, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mcpkit import Client

ROOT = Path(__file__).parents[3]


MCP1 = ROOT / ".servers" / "mcp1" / "bin" / "python"


def said(code, *, python=sys.executable, cwd=None):
    """Run the code in a process of its own, and return what it prints."""
    done = subprocess.run(
        [python, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_install_replaces_parts_of_mcp():
    assert said("""
        import importlib, importlib.util, pkgutil, sys
        import mcpkit.compat
        mcpkit.compat.install()
        mcpkit.compat.install()
        from mcpkit.compat import types as ours
        import mcp
        assert mcp.types.Tool is ours.Tool and mcp.Tool is ours.Tool and mcp.SamplingRole is ours.Role
        import mcp.types as types, mcp.shared.exceptions
        from mcp import types as again, McpError
        from mcp.types import CallToolRequest
        from mcp.shared import exceptions, version
        assert types is again is sys.modules["mcp.types"] is mcp.types
        assert CallToolRequest is ours.CallToolRequest
        assert exceptions is mcp.shared.exceptions and exceptions.McpError is McpError
        assert version.SUPPORTED_PROTOCOL_VERSIONS[-1] == "2025-11-25"
        assert importlib.reload(types) is types and types.Tool is ours.Tool
        assert importlib.util.find_spec("mcp.types").name == "mcp.types"
        assert list(pkgutil.iter_modules(mcp.__path__)) == []
        assert {"types", "server", "Tool", "ClientSession"} <= set(dir(mcp))
        stars = {}
        exec("from mcp.types import *", stars)
        assert stars["CallToolRequest"] is ours.CallToolRequest and "ModuleType" not in dir(sys)
        exec("from mcp.shared.version import *", stars)
        assert stars["LATEST_PROTOCOL_VERSION"] == "2025-11-25"
        print(sum(finder.__class__.__module__ == "mcpkit.compat.standing_in" for finder in sys.meta_path))
    """) == ["1"]


def test_install_works_without_and_with_installed_mcp(tmp_path):
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise RuntimeError('the one that is installed')")
    (tmp_path / "mcp" / "of_old.py").write_text("")
    code = """
        import mcpkit.compat
        mcpkit.compat.install()
        import mcp.types
        try:
            import mcp.of_old
        except ImportError as error:
            print(mcp.types.Tool.__module__, error)
    """
    (told,) = said(code, cwd=tmp_path)
    assert told.startswith(
        "mcpkit.compat.types mcpkit.compat replaces 'mcp' in this process and has no 'mcp.of_old'."
    )


CURES = [
    ("import mcp.cli", "ModuleNotFoundError", "`mcpkit run --compat FILE`"),
    ("from mcp import cli", "ModuleNotFoundError", "has no 'mcp.cli'"),
    (
        "from mcp.server.websocket import websocket_server",
        "ModuleNotFoundError",
        "does not support WebSocket",
    ),
    ("from mcp.types import CreateTaskResult", "ModuleNotFoundError", "`@server.tool(task=True)`"),
    (
        "from mcp.server.experimental.task_context import ServerTaskContext",
        "ModuleNotFoundError",
        "task=True",
    ),
    ("from mcp.shared.auth import OAuthToken", "ModuleNotFoundError", "`token_verifier=`"),
    ("from mcp.client.stdio import terminate", "ModuleNotFoundError", "`mcpkit.Client`"),
    ("import mcp; mcp.nothing", "AttributeError", "has no 'mcp.nothing'"),
    ("import mcp.types; mcp.types.Nothing", "AttributeError", "has no 'mcp.types.Nothing'"),
    ("from mcp import ClientSession; ClientSession(1, 2)", "NotImplementedError", "`mcpkit.Client`"),
    (
        "from mcp.server.fastmcp.resources import DirectoryResource; DirectoryResource(uri='a://b', path='/')",
        "NotImplementedError",
        "`@mcp.resource(uri)`",
    ),
    (
        "from mcp.shared.message import ServerMessageMetadata; ServerMessageMetadata()",
        "NotImplementedError",
        "`SessionMessage`",
    ),
    (
        "from mcp.client.streamable_http import streamablehttp_client; streamablehttp_client('https://x')",
        "NotImplementedError",
        "has no 'mcp.client.streamable_http.streamablehttp_client'",
    ),
]


def test_install_missing_names_raise_with_alternative():
    outcomes = said(f"""
        import mcpkit.compat
        mcpkit.compat.install()
        for code in {[code for code, _, _ in CURES]!r}:
            try:
                exec(code)
                print("nothing")
            except Exception as error:
                print(type(error).__name__, error)
    """)
    assert len(outcomes) == len(CURES)
    for (code, kind, cure), outcome in zip(CURES, outcomes, strict=True):
        assert outcome.startswith(kind), code
        assert cure in outcome, code


def test_install_after_import_of_mcp_names_the_importers(tmp_path):
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("class Tool: ...\ntool = Tool()")
    (tmp_path / "first.py").write_text("import mcp")
    (tmp_path / "second.py").write_text("from mcp import Tool as Mine")
    (tmp_path / "third.py").write_text("from mcp import tool")
    (tmp_path / "innocent.py").write_text("import json")
    code = """
        import first, second, third, innocent
        import mcpkit.compat
        try:
            mcpkit.compat.install()
        except RuntimeError as error:
            print(error)
    """
    (told,) = said(code, cwd=tmp_path)
    named = ", ".join(f"{name} ({tmp_path / name}.py)" for name in ("first", "second", "third"))
    assert told == (
        f"mcpkit.compat cannot replace 'mcp', which is already imported by {named}. Call `mcpkit.compat.install()` "
        "first in the process, or start the server with `mcpkit run --compat FILE`."
    )


def test_install_table_names_exist_in_mcpkit():
    (found,) = said("""
        import json
        from importlib import import_module
        from mcpkit.compat.standing_in import PLACES
        missing = set()
        for module, places in PLACES.items():
            for home, names in places:
                if home == "absent":
                    continue
                try:
                    room = import_module("mcpkit.compat." + home)
                    for name in names.values():
                        if name != "*":
                            getattr(room, name)
                except (ImportError, AttributeError) as error:
                    missing.add(f"{module}: {error}")
        print(json.dumps(sorted(missing)))
    """)
    assert json.loads(found) == []


def test_install_table_names_exist_in_mcp_1():
    if not MCP1.exists():
        pytest.skip("mcp 1.x is not installed here: `make setup` puts it into .servers")
    (table,) = said("""
        import json
        from mcpkit.compat.standing_in import PLACES
        print(json.dumps({
            module: [name for _, names in places for name in names if name != "*"]
            for module, places in PLACES.items()
        }))
    """)
    (strange,) = said(
        f"""
        import importlib, json
        table = json.loads({table!r})
        print([f"{{module}}.{{name}}" for module, names in table.items() if module.startswith("mcp")
               for name in names if not hasattr(importlib.import_module(module), name)])
    """,
        python=str(MCP1),
    )
    assert strange == "[]"


TELL = """
import json, sys
from mcp.types import Tool
print(json.dumps({"name": __name__, "argv": sys.argv, "path": sys.path[0], "file": __file__,
                  "main": sys.modules["__main__"].__dict__ is globals(), "tool": Tool.__module__}))
"""


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


def test_compat_module_runs_file_as_python_does(folder):
    script = "scripts/script.py"
    assert told(script, "--port", "3", cwd=folder) == {
        "name": "__main__",
        "argv": [script, "--port", "3"],
        "path": str(folder / "scripts"),
        "file": script,
        "main": True,
        "tool": "mcpkit.compat.types",
    }


def test_compat_module_runs_installed_command(folder):
    done = run("published-server", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert (seen["name"], seen["argv"]) == ("package.server", ["published-server"])
    assert seen["path"] == str(Path(sys.executable).parent)
    (folder / "published-server").mkdir()  # as in a checkout
    assert run("published-server", "--fail", cwd=folder).returncode == 3


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
async def test_compat_module_serves_objects_and_scripts(tmp_path, name, more, arguments):
    (tmp_path / "served.py").write_text(SERVER.format(name=name, more=more))
    assert await listed(tmp_path, *arguments) == (["measure"], 1)


def test_compat_module_runs_tests_of_server(tmp_path):
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
