"""mcpkit.compat.install() and python -m mcpkit.compat, each in a process of its own."""

import json
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

from mcpkit import Client
from mcpkit.compat.import_hook import MODULES
from tests.helpers.serving import ROOT
from tests.integration.compat.mcp1 import REFERENCE


def run(*arguments, cwd=None, python=sys.executable):
    """Run Python in a process of its own."""
    return subprocess.run(
        [python, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={"PYTHONPATH": f"{ROOT}:{cwd}" if cwd else str(ROOT), "PATH": ""},
        stdin=subprocess.DEVNULL,
    )


def output(code, **options):
    """Run code in a process of its own, and return the lines that it prints."""
    done = run("-c", textwrap.dedent(code), **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_install_replaces_parts_of_mcp():
    assert output("""
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
        print(sum(finder.__class__.__module__ == "mcpkit.compat.import_hook" for finder in sys.meta_path))
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
    expected = "mcpkit.compat.types mcpkit.compat replaces 'mcp' in this process and has no 'mcp.of_old'."
    assert output(code, cwd=tmp_path)[0].startswith(expected)


NO_MODULE, NO_NAME, REPLACED = "ModuleNotFoundError", "AttributeError", "NotImplementedError"
MISSING = [
    ("import mcp.cli", NO_MODULE, "`mcpkit run --compat FILE`"),
    ("from mcp import cli", NO_MODULE, "has no 'mcp.cli'"),
    ("from mcp.server.websocket import websocket_server", NO_MODULE, "does not support WebSocket"),
    ("from mcp.types import CreateTaskResult", NO_MODULE, "`@server.tool(task=True)`"),
    ("from mcp.server.experimental.task_context import X", NO_MODULE, "task=True"),
    ("from mcp.shared.auth import OAuthToken", NO_MODULE, "`token_verifier=`"),
    ("from mcp.client.stdio import terminate", NO_MODULE, "`mcpkit.Client`"),
    ("import mcp; mcp.nothing", NO_NAME, "has no 'mcp.nothing'"),
    ("import mcp.types; mcp.types.Nothing", NO_NAME, "has no 'mcp.types.Nothing'"),
    ("from mcp import ClientSession; ClientSession(1, 2)", REPLACED, "`mcpkit.Client`"),
    (
        "from mcp.server.fastmcp.resources import DirectoryResource as D; D()",
        REPLACED,
        "`@mcp.resource(uri)`",
    ),
    ("from mcp.shared.message import ServerMessageMetadata as D; D()", REPLACED, "`SessionMessage`"),
    (
        "from mcp.client.sse import sse_client; sse_client('https://x')",
        REPLACED,
        "has no 'mcp.client.sse.sse_client'",
    ),
]


def test_install_missing_names_raise_with_alternative():
    outcomes = output(f"""
        import mcpkit.compat
        mcpkit.compat.install()
        for code in {[code for code, _, _ in MISSING]!r}:
            try:
                exec(code)
                print("nothing")
            except Exception as error:
                print(type(error).__name__, error)
    """)
    rows = zip(MISSING, outcomes, strict=True)
    assert [row for row in rows if not (row[1].startswith(row[0][1]) and row[0][2] in row[1])] == []


def test_install_after_import_of_mcp_names_the_importers(tmp_path):
    (tmp_path / "mcp").mkdir()
    for name, source in {
        "mcp/__init__": "class Tool: ...\ntool = Tool()",
        "first": "import mcp",
        "second": "from mcp import Tool as Mine",
        "third": "from mcp import tool",
        "innocent": "import json",
    }.items():
        (tmp_path / f"{name}.py").write_text(source)
    code = """
        import first, second, third, innocent
        import mcpkit.compat
        try:
            mcpkit.compat.install()
        except RuntimeError as error:
            print(error)
    """
    named = ", ".join(f"{name} ({tmp_path / name}.py)" for name in ("first", "second", "third"))
    (text,) = output(code, cwd=tmp_path)
    assert text == (
        f"mcpkit.compat cannot replace 'mcp', which is already imported by {named}. Call `mcpkit.compat.install()` "
        "first in the process, or start the server with `mcpkit run --compat FILE`."
    )


def test_install_table_names_exist_in_mcpkit():
    missing = [
        f"{module}.{name}"
        for module, places in MODULES.items()
        for home, names in places
        if home != "absent"
        for name in names.values()
        if name != "*" and not hasattr(import_module(f"mcpkit.compat.{home}"), name)
    ]
    assert missing == []


@pytest.mark.skipif(not REFERENCE.exists(), reason="the environment of mcp 1 is not installed")
def test_install_table_names_exist_in_mcp_1():
    table = {
        module: [name for _, names in places for name in names if name != "*"]
        for module, places in MODULES.items()
        if module.startswith("mcp")
    }
    code = f"""
        import importlib
        print([f"{{module}}.{{name}}" for module, names in {table!r}.items() for name in names
               if not hasattr(importlib.import_module(module), name)])
    """
    assert output(code, python=str(REFERENCE)) == ["[]"]


SCRIPT = """
import json, sys
from mcp.types import Tool
print(json.dumps({"name": __name__, "argv": sys.argv, "path": sys.path[0], "file": __file__,
                  "main": sys.modules["__main__"].__dict__ is globals(), "tool": Tool.__module__}))
"""


@pytest.fixture
def folder(tmp_path):
    information = "Metadata-Version: 2.1\nName: published\nVersion: 1.0\n"
    for name, text in {
        "scripts/script.py": SCRIPT,
        "package/__init__.py": "",
        "package/server.py": SCRIPT + "def main():\n    return 3 if sys.argv[1:] else None\n",
        "published-1.0.dist-info/METADATA": information,
        "published-1.0.dist-info/entry_points.txt": "[console_scripts]\npublished-server = package.server:main\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_compat_module_runs_file_as_python_does(folder):
    script = "scripts/script.py"
    done = run("-m", "mcpkit.compat", script, "--port", "3", cwd=folder)
    assert json.loads(done.stdout) == {
        "name": "__main__",
        "argv": [script, "--port", "3"],
        "path": str(folder / "scripts"),
        "file": script,
        "main": True,
        "tool": "mcpkit.compat.types",
    }


def test_compat_module_runs_installed_command(folder):
    done = run("-m", "mcpkit.compat", "published-server", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert (seen["name"], seen["argv"]) == ("package.server", ["published-server"])
    assert seen["path"] == str(Path(sys.executable).parent)
    (folder / "published-server").mkdir()  # as in a checkout
    assert run("-m", "mcpkit.compat", "published-server", "--fail", cwd=folder).returncode == 3


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


@pytest.mark.parametrize(("name", "more", "arguments"), [
    ("mcp", "if __name__ == '__main__':\n    mcp.run(transport='stdio')", ["served.py", "--fast"]),
    ("server", "app = 3", ["served.py"]),
    ("app", "", ["-m", "served"]),
    *(("weather", "", [f"{name}:weather"]) for name in ("served.py", "served")),
])  # fmt: skip
async def test_compat_module_serves_objects_and_scripts(tmp_path, name, more, arguments):
    (tmp_path / "served.py").write_text(SERVER.format(name=name, more=more))
    log = []
    async with Client(
        [sys.executable, "-m", "mcpkit.compat", *arguments],
        cwd=tmp_path,
        stderr=log.append,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
    ) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["measure"]
    assert log.count("made") == 1, "its file runs once"


def test_compat_module_runs_tests_of_server(tmp_path):
    (tmp_path / "test_server.py").write_text("""
import asyncio
from mcp.server.fastmcp import FastMCP

def test_listing():
    mcp = FastMCP("weather")
    mcp.tool(name="measure")(lambda place: 3)
    [listed] = asyncio.run(mcp.list_tools())
    assert type(listed).__module__ == "mcpkit.compat.types"
""")
    done = run(
        "-m", "mcpkit.compat", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_server.py", cwd=tmp_path
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
