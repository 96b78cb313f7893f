"""The command: its output, its messages, and the files that it writes."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest

from mcpkit._utils.package import install_command
from mcpkit.compat.migrate.__main__ import main
from mcpkit.compat.migrate.rewriter import rewritten

OLD = """\
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("a")


@mcp.tool()
def f() -> str:
    return "x"
"""
NEW = OLD.replace("mcp.server.fastmcp import FastMCP", "mcpkit import Server").replace("FastMCP", "Server")
NEW = NEW.replace("tool()", "tool")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(OLD)
    return file


def test_migrate_prints_diff_and_writes_on_request_only(file, capsys) -> None:
    file.chmod(0o750)
    for options, status, text in (
        ([], 0, OLD),
        (["--check"], 1, OLD),
        (["--write"], 0, NEW),
        (["--check"], 0, NEW),
    ):
        before = file.read_text()
        assert main([str(file), *options]) == status, options
        shown = capsys.readouterr()
        if before == OLD:
            assert shown.out.startswith(f"--- {file}\n+++ {file}\n@@")
            assert "-from mcp.server.fastmcp import FastMCP\n+from mcpkit import Server\n" in shown.out
        assert shown.err == ""
        assert file.read_text() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert [each.name for each in file.parent.iterdir()] == ["app.py"], "nothing is left beside it"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_migrate_keeps_encoding_and_line_endings(file: Path, encoding: str, ending: str) -> None:
    head = "# -*- coding: latin-1 -*-\n" if encoding == "latin-1" else ""
    file.write_bytes((head + OLD + "# Käse\n").replace("\n", ending).encode(encoding))
    assert main([str(file), "--write"]) == 0
    assert file.read_bytes() == (head + NEW + "# Käse\n").replace("\n", ending).encode(encoding)


def test_migrate_invalid_files_are_reported_and_skipped(file, capsys) -> None:
    wrong, odd, missing = (file.with_name(f"{name}.py") for name in ("wrong", "odd", "missing"))
    wrong.write_text("import mcp\ndef f(:\n")
    odd.write_bytes("# -*- coding: latin-1x -*-\n# é mcp\n".encode())
    assert main([*map(str, (wrong, odd, missing, file)), "--write"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"{wrong}: line 2: invalid Python syntax")
    assert said[1].startswith(f"{odd}: cannot decode the file")
    assert said[2] == f"{missing}: no such file, and not a folder with Python files"
    assert file.read_text() == NEW


def test_migrate_marks_are_listed_with_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(OLD.replace('"a"', '"a", dependencies=["httpx"]'))
    assert main([str(file), "--write"]) == 0
    where, _, text = capsys.readouterr().err.strip().partition(": ")
    assert text.startswith("dependencies= is not an argument of Server: ")
    lines = file.read_text().splitlines()
    assert where == f"{file}:{lines.index(next(line for line in lines if line.startswith('# mcpkit: '))) + 1}"


def test_migrate_folder_skips_installed_packages(file: Path) -> None:
    expected = {"app.py": NEW, "inner/app.py": NEW, ".venv/app.py": OLD, "node_modules/app.py": OLD}
    for name in expected:
        (file.parent / name).parent.mkdir(exist_ok=True)
        (file.parent / name).write_text(OLD)
    assert main([str(file.parent), "--write"]) == 0
    assert {name: (file.parent / name).read_text() for name in expected} == expected


MAKE = "def make() -> FastMCP:\n    return FastMCP()\n\n\nmcp = make()\n"


def test_migrate_follows_servers_through_modules_and_functions(tmp_path: Path) -> None:
    sources = {
        "pkg/app.py": "from mcp.server.fastmcp import FastMCP\n\n\n" + MAKE,
        "pkg/__init__.py": "from .app import mcp as server\n",
        "other.py": "from pkg import server\n\nserver.run(transport='streamable-http')\n",
    }
    (tmp_path / "pkg").mkdir()
    for name, source in sources.items():
        (tmp_path / name).write_text(source)
    assert main([str(tmp_path / "other.py"), "--write"]) == 0
    assert (tmp_path / "other.py").read_text() == 'from pkg import server\n\nserver.run("http")\n'


@pytest.mark.parametrize(("module", "name", "text"), [
    ("mcp.server.lowlevel", "Server", "low-level Server"),
    ("mcp.server", "Server", "low-level Server"),
    ("fastmcp", "FastMCP", "package fastmcp"),
])  # fmt: skip
def test_migrate_other_servers_are_left_with_message(file, capsys, module, name, text) -> None:
    file.write_text(f"from {module} import {name}\n\nserver = {name}('a')\n")
    assert main([str(file), "--check"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert text in shown.err
    assert f"mcpkit run --compat {file}" in shown.err
    assert len(shown.err.splitlines()) == 1


def test_migrate_without_libcst_names_the_extra(file: Path) -> None:
    code = "import sys; sys.modules['libcst'] = None; import mcpkit.compat.migrate.__main__ as command; "
    code += "sys.exit(command.main(['.']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    message = f"mcpkit.compat.migrate needs the package libcst. Run: {install_command('migrate')}\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_migrate_runs_as_module(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcpkit.compat.migrate", "--check", str(file)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout[:4]) == (1, "--- ")


def test_rewritten_source_equals_expected_source_of_each_case() -> None:
    table = Path(__file__).with_name("migrate_cases.txt").read_text("utf-8")
    parts = re.split(r"^=== (.*)\n", table, flags=re.MULTILINE)[1:]
    assert len(parts) == 18 * 4
    deviations = []
    for name, before, _, after in zip(*[iter(parts)] * 4, strict=True):
        found = rewritten(cst.parse_module(before), set())
        assert found.module is not None, name
        if found.module.code != after:
            deviations.append((name, found.module.code, after))
        elif rewritten(found.module, set()).module is not None:
            deviations.append((name, "a second run changes the source", after))
    assert deviations == []


def test_migrate_converts_content_of_helper_modules(file: Path) -> None:
    helper = file.with_name("helper.py")
    helper.write_text('from mcp.types import TextContent\n\nHELLO = TextContent(type="text", text="hello")\n')
    main([str(helper), "--write"])
    assert "mcp.types" in helper.read_text(), "alone it may be a client's"
    main([str(file.parent), "--write"])
    assert helper.read_text() == 'from mcpkit import Text\n\nHELLO = Text("hello")\n'
