"""The command line: help, statuses, completion, pages; list, read, prompt, complete, ping, inspect and migrate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest

from mcpkit.cli.app import run
from mcpkit.cli.checking.tokens import tokens
from mcpkit.cli.commands import COMMANDS, overview
from mcpkit.cli.statuses import Status
from tests.integration.cli.workbench_server import PIXEL

CIRCULAR = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    answers = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}},
        "tools/list": {"tools": [{"name": "bake", "inputSchema": {"type": "object"}}], "nextCursor": "again"},
    }
    if "id" in m:
        outcome = {"result": answers[m["method"]]} if m["method"] in answers else {"error": "not here"}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **outcome}), flush=True)
"""

WEATHER = Path(__file__).parents[3] / "examples" / "weather" / "server.py"


def mcpkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpkit", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_help_imports_no_library() -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from mcpkit.__main__ import main; main(['--help']); print('click' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told == f"{overview()}\nFalse\n"


def test_commands_have_an_example_and_a_page() -> None:
    root = Path(__file__).parents[3]
    navigation = (root / "mkdocs.yml").read_text()
    faults = []
    for name in COMMANDS:
        command = import_module(f"mcpkit.cli.{COMMANDS[name].place}").command
        page = (root / "docs" / "commands" / f"{name}.md").read_text()
        is_complete = (
            command.name == name
            and f"Example: mcpkit {name} " in command.epilog
            and page.startswith(f"# mcpkit {name}\n")
            and f"mcpkit {name}" in page.split("\n", 1)[1]
            and f"{name}: commands/{name}.md" in navigation
        )
        if not is_complete:
            faults.append(name)
    assert faults == []


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 1, ""),
        (("--help",), 0, ""),
        (("list", "--help"), 0, ""),
        (("lits", "server.py"), 1, "no such command: lits; did you mean list?"),
        (("list",), 1, "Missing argument 'TARGET'"),
        (("list", "absent.py"), 2, "absent.py does not exist in "),
        (("list", "nothing"), 2, "nothing is not a file, a URL, a command of several words"),
        (("list", "http://127.0.0.1:1/mcp"), 4, "cannot connect to http://127.0.0.1:1"),
        (("list", str(WEATHER)), 0, ""),
    ],
)
def test_commands_exit_with_documented_status(arguments: tuple[str, ...], status: int, message: str) -> None:
    ended = mcpkit(*arguments)
    assert ended.returncode == status, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command, and of the commands below it."""
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return {"--help", "--debug", *own}.union(*map(options_of, inner))


def test_pages_name_existing_commands_and_options() -> None:
    root = Path(__file__).parents[3]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    known = {
        name: options_of(import_module(f"mcpkit.cli.{each.place}").command) for name, each in COMMANDS.items()
    }
    wrong: list[str] = []
    seen = 0
    for page in pages:
        if page.name in {"architecture.md", "changelog.md"}:
            continue
        for name, rest in re.findall(
            r"(?:^\$ |`)mcpkit ([a-z]+)\b([^`|\n]*)", page.read_text("utf-8"), re.MULTILINE
        ):
            if name not in known:
                wrong.append(f"{page.name}: there is no mcpkit {name}")
                continue
            for option in re.findall(
                r"(?<=\s)--[a-z][a-z-]*", re.sub(r'"[^"]*"', "", rest).partition(" -- ")[0]
            ):
                seen += 1
                if option not in known[name] and name != "migrate":  # which has a parser of its own
                    wrong.append(f"{page.name}: mcpkit {name} has no {option}")
    assert wrong == []
    assert seen > 30


Run = Callable[..., tuple[int, str, str]]


def test_list_prints_tables(mcpkit: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    status, out, err = mcpkit("list", url)
    assert (status, err) == (0, "")
    lines = [line.split("  ") for line in out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert ["name", "description", "arguments (? = optional)"] in cells
    assert ["add", "Add two numbers.", "first: integer, second?: integer = 1"] in cells
    assert ["note://hello", "note", "text/plain", "A note."] in cells
    assert ["greet", "A greeting", "Greet somebody.", "name: string, tone?: string"] in cells
    assert "\x1b" not in out
    status, out, _ = mcpkit("list", url, "prompts", "templates")
    assert [line for line in out.splitlines() if not line.startswith(" ")] == ["1 prompt", "1 template"]


def test_read_prints_and_saves_resources(mcpkit: Run, url: str, tmp_path: Path) -> None:
    assert mcpkit("read", url, "note://of/Ada") == (0, "Hello, Ada\n", "")
    status, out, _ = mcpkit("read", url, "note://hello", "--json")
    assert json.loads(out) == {
        "contents": [{"uri": "note://hello", "mimeType": "text/plain", "text": "Hello"}]
    }
    status, out, err = mcpkit("read", url, "note://nobody")
    assert (status, out) == (2, "")
    assert "note://nobody" in err
    picture = ("read", url, "picture://pixel", "--out")
    assert mcpkit(*picture, str(tmp_path)) == (
        0,
        "",
        f"saved {tmp_path / 'pixel.png'} (image/png, 69 bytes)\n",
    )
    path = tmp_path / "mine.png"
    assert mcpkit(*picture, str(path)) == (0, "", f"saved {path} (69 bytes)\n")
    assert path.read_bytes() == PIXEL
    status, _, err = mcpkit(*picture, str(path))
    assert (status, err) == (1, f"mcpkit: {path} exists already. Choose another name for --out\n")


def test_inspect_prints_report_and_tokens(mcpkit: Run, url: str) -> None:
    status, out, err = mcpkit("inspect", url, "--json")
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert report["server"]["name"] == "workbench"
    assert report["instructions"] == "Use it for tests.\nSecond line."
    [add] = [tool for tool in report["tools"] if tool["name"] == "add"]
    handed = {"name": "add", "description": add["description"], "input_schema": add["inputSchema"]}
    costs = report["tokens"]
    assert costs["tools"]["add"] == tokens(json.dumps(handed, separators=(",", ":")))
    assert costs["total"] == sum(costs["tools"].values()) + costs["instructions"]
    _, out, _ = mcpkit("inspect", url)
    assert out.startswith(
        "workbench 1.0.0\nrevision 2026-07-28: the newest revision that client and server support\n"
    )
    assert f"about {costs['total']:,} tokens in total including the instructions (an estimate" in out


def test_list_unreachable_server_exits_with_status_4(mcpkit: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import sys\nsys.exit('it is Monday')\n")
    status, out, err = mcpkit("list", "no-such-program --now")
    assert (status, out) == (4, ""), err
    status, out, err = mcpkit("list", str(broken))
    assert (status, out) == (4, ""), err
    assert err.count("it is Monday") == 1
    assert mcpkit("list", "http://127.0.0.1:1/mcp")[0] == 4


BEFORE = """from mcp.server.fastmcp import FastMCP

mcp = FastMCP("shop")


@mcp.tool()
def price(item: str) -> float:
    return 3.5
"""


def test_migrate_command_prints_checks_and_writes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.py"
    file.write_text(BEFORE)
    assert run(["migrate", str(file)]) == 0
    assert '+mcp = Server("shop")' in capfd.readouterr().out
    assert run(["migrate", "--check", str(file)]) == 1
    assert file.read_text() == BEFORE
    assert run(["migrate", str(file), "--write"]) == 0
    assert "from mcpkit import Server" in file.read_text()
    assert run(["migrate", "--check", str(file)]) == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_offers_commands_and_options(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_MCPKIT_COMPLETE" in mcpkit("--completion", shell).stdout
    monkeypatch.setenv("_MCPKIT_COMPLETE", f"{shell}_complete")
    for typed, place, found in (("mcpkit ca", 1, "call"), ("mcpkit call --all", 2, "--all-revisions")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", typed.rpartition(" ")[2] if shell == "fish" else str(place))
        assert found in mcpkit().stdout


def test_list_repeated_cursor_prints_previous_pages(mcpkit: Run, tmp_path: Path) -> None:
    (script := tmp_path / "circular.py").write_text(CIRCULAR, encoding="utf-8")
    status, out, err = mcpkit("list", str(script), "tools")
    assert status == Status.TOOL_ERROR
    assert out.count("bake") == 2
    assert "repeats the cursor 'again'" in err
