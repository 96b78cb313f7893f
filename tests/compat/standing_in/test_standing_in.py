"""What `mcp` is after `mcpkit.compat.install()`: each test is a process, as nothing else may have imported it."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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


def test_parts_of_mcp_are_ours_however_they_are_imported():
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


def test_it_does_not_matter_whether_mcp_is_installed(tmp_path):
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
    assert told.startswith("mcpkit.compat.types mcpkit has no 'mcp.of_old', for which it stands in here.")


CURES = [
    ("import mcp.cli", "ModuleNotFoundError", "`mcpkit run --compat FILE` runs a server"),
    ("from mcp import cli", "ModuleNotFoundError", "mcpkit has no 'mcp.cli'"),
    ("from mcp.server.websocket import websocket_server", "ModuleNotFoundError", "no WebSocket"),
    ("from mcp.types import CreateTaskResult", "ModuleNotFoundError", "`@server.tool(task=True)`"),
    (
        "from mcp.server.experimental.task_context import ServerTaskContext",
        "ModuleNotFoundError",
        "task=True",
    ),
    ("from mcp.shared.auth import OAuthToken", "ModuleNotFoundError", "`token_verifier=`"),
    ("from mcp.client.stdio import terminate", "ModuleNotFoundError", "`mcpkit.Client`"),
    ("import mcp; mcp.nothing", "AttributeError", "mcpkit has no 'mcp.nothing'"),
    ("import mcp.types; mcp.types.Nothing", "AttributeError", "mcpkit has no 'mcp.types.Nothing'"),
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
        "mcpkit has no 'mcp.client.streamable_http.streamablehttp_client'",
    ),
]


def test_what_is_not_there_names_what_to_do_instead():
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


def test_servers_may_look_whether_something_is_there_and_name_it():
    assert said("""
        import typing
        import mcpkit.compat
        mcpkit.compat.install()
        import mcp, mcp.types
        print(hasattr(mcp, "nothing"), hasattr(mcp.types, "Task"), hasattr(mcp.types, "Tool"))
        try:
            from mcp.server.websocket import websocket_server
        except ImportError:
            print("without WebSocket")
        from mcp.client.session import ClientSession
        from mcp.client.streamable_http import GetSessionIdCallback
        class Proxy(ClientSession):
            pass
        def connect(session: ClientSession | None, of: "dict[str, GetSessionIdCallback]") -> None: ...
        print(typing.get_type_hints(connect)["session"], isinstance(3, ClientSession))
    """) == [
        "False False True",
        "without WebSocket",
        "mcp.client.session.ClientSession | None False",
    ]


def test_who_imported_mcp_before_is_named(tmp_path):
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
        f"'mcp' has been imported before mcpkit could stand in for it, by {named}. Call `mcpkit.compat.install()` "
        "before that, as the first thing in the process, or start the server with `mcpkit run --compat FILE`."
    )


def test_an_import_that_nobody_holds_is_refused_as_well(tmp_path):
    (tmp_path / "mcp.py").write_text("")
    code = """
        import mcpkit.compat
        def look(): import mcp
        look()
        try:
            mcpkit.compat.install()
        except RuntimeError as error:
            print(error)
    """
    (told,) = said(code, cwd=tmp_path)
    assert told.startswith(
        "'mcp' has been imported before mcpkit could stand in for it, and no module holds a part"
    )


def test_every_name_of_the_table_is_there():
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


def test_the_table_names_what_mcp_1_has():
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
