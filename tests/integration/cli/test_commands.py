"""The command line: help, statuses, completion, pages; list, read, prompt, complete, ping, inspect and migrate."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from mcpkit.cli import app
from mcpkit.cli.command_table import COMMANDS, overview
from mcpkit.cli.exit_status import Status
from mcpkit.cli.inspect import count_tokens
from tests.helpers.tables import each_row
from tests.integration.cli.workbench_server import PIXEL

Run = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).parents[3]


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpkit", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_help_imports_no_library() -> None:
    program = "import sys; from mcpkit.__main__ import main; main(['--help']); print('click' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{overview()}\nFalse\n"


def command_of(name: str) -> click.Command:
    """Return a command."""
    command = app.mcpkit.get_command(click.Context(app.mcpkit), name)
    assert command is not None
    return command


@each_row("name", COMMANDS)
def test_command_has_an_example_and_a_page(name: str) -> None:
    command = command_of(name)
    page = (ROOT / "docs" / "cli" / f"{name}.md").read_text()
    assert (command.name, page.splitlines()[0]) == (name, f"# mcpkit {name}")
    assert f"Example: mcpkit {name} " in command.epilog
    assert f"mcpkit {name}" in page.split("\n", 1)[1]
    assert f"{name}: cli/{name}.md" in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize(("arguments", "status", "message"), [
    ((), 1, ""), (("--help",), 0, ""), (("list", "--help"), 0, ""),
    (("lits", "server.py"), 1, "no such command: lits; did you mean list?"),
    (("list",), 1, "Missing argument 'TARGET'"),
    (("list", "absent.py"), 2, "absent.py does not exist in "),
    (("list", "nothing"), 2, "nothing is not a file, a URL, a command of several words"),
    (("list", "no-such-program --now"), 4, ""),
    (("list", "http://127.0.0.1:1/mcp"), 4, "cannot connect to http://127.0.0.1:1"),
    (("list", str(ROOT / "examples" / "weather" / "server.py")), 0, ""),
])  # fmt: skip
def test_commands_exit_with_documented_status(arguments: tuple[str, ...], status: int, message: str) -> None:
    ended = run_process(*arguments)
    assert ended.returncode == status, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command, and of the commands below it."""
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return {"--help", "--debug", *own}.union(*map(options_of, inner))


def test_pages_name_existing_commands_and_options() -> None:
    known = {name: options_of(command_of(name)) for name in COMMANDS}
    known["migrate"] |= {"--check", "--write"}  # it has a parser of its own
    wrong: list[str] = []
    seen = 0
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if page.name in {"architecture.md", "changelog.md"}:
            continue
        commands = re.findall(r"(?:^\$ |`)mcpkit ([a-z]+)\b([^`|\n]*)", page.read_text("utf-8"), re.MULTILINE)
        for name, rest in commands:
            words = re.sub(r'"[^"]*"', "", rest).partition(" -- ")[0]
            options = re.findall(r"(?<=\s)--[a-z][a-z-]*", words)
            seen += len(options)
            unknown = [each for each in options if each not in known.get(name, ())]
            if name not in known or unknown:
                wrong.append(f"{page.name}: mcpkit {name} {unknown}")
    assert wrong == []
    assert seen > 30


def test_list_prints_tables(mcpkit: Run, url: str) -> None:
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
    contents = [{"uri": "note://hello", "mimeType": "text/plain", "text": "Hello"}]
    assert json.loads(mcpkit("read", url, "note://hello", "--json")[1]) == {"contents": contents}
    status, out, err = mcpkit("read", url, "note://nobody")
    assert (status, out) == (2, "")
    assert "note://nobody" in err
    picture = ("read", url, "picture://pixel", "--out")
    message = f"saved {tmp_path / 'pixel.png'} (image/png, 69 bytes)\n"
    assert mcpkit(*picture, str(tmp_path)) == (0, "", message)
    path = tmp_path / "mine.png"
    assert mcpkit(*picture, str(path)) == (0, "", f"saved {path} (69 bytes)\n")
    assert path.read_bytes() == PIXEL
    status, _, err = mcpkit(*picture, str(path))
    assert (status, err) == (1, f"mcpkit: {path} exists already. Choose another name for --out\n")


def test_prompt_prints_messages_and_unknown_prompt_has_hint(mcpkit: Run, url: str) -> None:
    text = "Greet Ada in a cold tone"
    status, out, err = mcpkit("prompt", url, "greet", "name=Ada", "tone=cold")
    assert (status, out, err) == (0, f"user:\n{text}\n", "")
    messages = json.loads(mcpkit("prompt", url, "greet", "name=Ada", "tone=cold", "--json")[1])["messages"]
    assert messages == [{"role": "user", "content": {"type": "text", "text": text}}]
    for name, hint in (("gret", "did you mean greet?"), ("other", "the server has greet")):
        assert mcpkit("prompt", url, name) == (2, "", f"mcpkit: no such prompt: {name}; {hint}\n")
    status, _, err = mcpkit("prompt", url, "greet")
    assert (status, "name" in err) == (5, True)


def test_complete_prints_values(mcpkit: Run, url: str) -> None:
    assert mcpkit("complete", url, "greet", "tone=w", "name=Ada") == (0, "warm\n", "")
    assert json.loads(mcpkit("complete", url, "greet", "tone=", "--json")[1]) == {"values": ["warm", "cold"]}
    status, out, err = mcpkit("complete", url, "greet", "tone:=1")
    assert (status, out, "Write key=value instead of key:=JSON" in err) == (1, "", True)


def test_inspect_prints_report_and_tokens(mcpkit: Run, url: str) -> None:
    status, out, err = mcpkit("inspect", url, "--json")
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert report["server"]["name"] == "workbench"
    assert report["instructions"] == "Use it for tests.\nSecond line."
    [add] = [tool for tool in report["tools"] if tool["name"] == "add"]
    handed = {"name": "add", "description": add["description"], "input_schema": add["inputSchema"]}
    costs = report["tokens"]
    assert costs["tools"]["add"] == count_tokens(json.dumps(handed, separators=(",", ":")))
    assert costs["total"] == sum(costs["tools"].values()) + costs["instructions"]
    _, out, _ = mcpkit("inspect", url)
    assert out.startswith(
        "workbench 1.0.0\nrevision 2026-07-28: the newest revision that client and server support\n"
    )
    assert f"about {costs['total']:,} tokens in total including the instructions (an estimate" in out


def test_list_of_a_process_that_ends_prints_its_output_once(mcpkit: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import sys\nsys.exit('it is Monday')\n")
    status, out, err = mcpkit("list", str(tmp_path / "broken.py"))
    assert (status, out, err.count("it is Monday")) == (4, "", 1)


BEFORE = """from mcp.server.fastmcp import FastMCP

mcp = FastMCP("shop")


@mcp.tool()
def price(item: str) -> float:
    return 3.5
"""


def test_migrate_command_prints_checks_and_writes(tmp_path: Path, mcpkit: Run) -> None:
    file = tmp_path / "server.py"
    file.write_text(BEFORE)
    status, out, _ = mcpkit("migrate", str(file))
    assert (status, '+mcp = Server("shop")' in out) == (0, True)
    assert mcpkit("migrate", "--check", str(file))[0] == 1
    assert file.read_text() == BEFORE
    assert mcpkit("migrate", str(file), "--write")[0] == 0
    assert "from mcpkit import Server" in file.read_text()
    assert mcpkit("migrate", "--check", str(file))[0] == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_offers_commands_and_options(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_MCPKIT_COMPLETE" in run_process("--completion", shell).stdout
    monkeypatch.setenv("_MCPKIT_COMPLETE", f"{shell}_complete")
    for typed, place, found in (("mcpkit ca", 1, "call"), ("mcpkit call --all", 2, "--all-revisions")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", typed.rpartition(" ")[2] if shell == "fish" else str(place))
        assert found in run_process().stdout


def test_list_repeated_cursor_prints_previous_pages(mcpkit: Run) -> None:
    script = Path(__file__).with_name("faulty_process.py")
    status, out, err = mcpkit("list", f"{sys.executable} -S {script} cursor-loops", "tools")
    assert status == Status.TOOL_ERROR
    assert out.count("now") == 2
    assert "repeats the cursor 'same'" in err
