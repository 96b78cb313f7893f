"""The command line as a whole: its help, its statuses, and what it costs to ask for help."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from mcpkit.cli.app import run
from mcpkit.cli.commands import COMMANDS, overview
from mcpkit.common.installation import install_command

WEATHER = Path(__file__).parents[2] / "examples" / "weather" / "server.py"


def mcpkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpkit", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_help_needs_no_library() -> None:
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


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_tells_of_itself_with_an_example(name: str) -> None:
    command = import_module(f"mcpkit.cli.{COMMANDS[name].place}").command
    assert command.name == name
    assert f"Example: mcpkit {name} " in command.epilog


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ((), 1, ""),
        (("--help",), 0, ""),
        (("list", "--help"), 0, ""),
        (("lits", "server.py"), 1, "there is no command lits; did you mean list?"),
        (("list",), 1, "Missing argument 'TARGET'"),
        (("list", "absent.py"), 2, "there is no absent.py in "),
        (("list", "nothing"), 2, "nothing is no file, no URL, no command of several words"),
        (("list", "http://127.0.0.1:1/mcp"), 4, "cannot connect to http://127.0.0.1:1"),
        (("list", str(WEATHER)), 0, ""),
    ],
)
def test_statuses(arguments: tuple[str, ...], status: int, told: str) -> None:
    ended = mcpkit(*arguments)
    assert ended.returncode == status, ended.stderr
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_MCPKIT_COMPLETE" in mcpkit("--completion", shell).stdout
    monkeypatch.setenv("_MCPKIT_COMPLETE", f"{shell}_complete")
    for typed, place, found in (("mcpkit ca", 1, "call"), ("mcpkit call --all", 2, "--all-revisions")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", typed.rpartition(" ")[2] if shell == "fish" else str(place))
        assert found in mcpkit().stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_page_of_the_documentation(name: str) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "commands" / f"{name}.md").read_text()
    assert page.startswith(f"# mcpkit {name}\n")
    assert f"mcpkit {name}" in page.split("\n", 1)[1]
    assert f"{name}: commands/{name}.md" in (root / "mkdocs.yml").read_text()


def test_what_the_extra_would_bring_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("rich", "rich.console", "rich.table"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run(["hosts"]) == 1
    assert capsys.readouterr().err == f"mcpkit: this command needs rich. Run: {install_command('cli')}\n"


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command, and of the commands below it."""
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return {"--help", "--debug", *own}.union(*map(options_of, inner))


def test_commands_and_options_that_pages_name_are_there() -> None:
    root = Path(__file__).parents[2]
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
