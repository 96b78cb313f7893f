"""Scripts that declare their dependencies themselves (PEP 723), run and installed by uv; a stand-in plays uv."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit.cli.statuses import CommandError
from mcpkit.cli.targets.inline import Inline, inline_of
from mcpkit.common.start import mcpkit_command

BLOCK = """# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "mcpkit[cli]",
#
#   "cowsay>=1",
# ]
{}# ///
"""
SERVER = """
import sys

import cowsay
from mcpkit import Server

server = Server("cow")
given = sys.argv[1:]


@server.tool
def say() -> list[str]:
    return [cowsay.WORD, *given]
"""
GUARD = '\nif __name__ == "__main__":\n    server.run()\n'
UV = """#!{python}
import json, os, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + chr(10))
os.environ["PYTHONPATH"] = {packages!r}  # what it would have installed
if "--script" in words:
    os.execv({python!r}, [{python!r}, *words[words.index("--script") + 1 :]])
os.execv({mcpkit!r}, [{mcpkit!r}, *words[words.index("mcpkit") + 1 :]])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    [mcpkit, *more] = mcpkit_command()
    if more:
        pytest.skip("mcpkit has no console script here")
    (packages := tmp_path / "packages").mkdir()
    (packages / "cowsay.py").write_text("WORD = 'moo'\n")
    (programs := tmp_path / "bin").mkdir()
    names = {
        "python": sys.executable,
        "log": str(tmp_path / "log"),
        "packages": str(packages),
        "mcpkit": mcpkit,
    }
    (programs / "uv").write_text(UV.format(**names))
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (project := tmp_path / "project").mkdir()
    monkeypatch.chdir(project)
    return project


def mcpkit(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(mcpkit_command(*words), capture_output=True, text=True, check=False, timeout=60)


def log(folder: Path) -> list[list[str]]:
    file = folder.parent / "log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("is_in_project", [False, True], ids=["alone", "in-a-project"])
@pytest.mark.parametrize("source", [SERVER, SERVER + GUARD], ids=["served", "guarded"])
def test_a_script_is_run_and_installed_with_what_it_declares(
    source: str, is_in_project: bool, folder: Path
) -> None:
    if is_in_project:
        (folder / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\n')
    file = folder / "cow.py"
    file.write_text(BLOCK.format("") + source)
    by_uv = ["run", "--project", str(folder)]
    with_each = [
        *by_uv,
        "--no-project",
        "--python",
        ">=3.10",
        "--with",
        "mcpkit[cli]",
        "--with",
        "cowsay>=1",
        "mcpkit",
    ]
    if source == SERVER:
        entry = [*with_each, "run", str(file)]
        ran = [*with_each, "run", "cow.py", "--"]
    else:
        entry = ran = [*by_uv, "--script", str(file)]

    called = mcpkit("call", "cow.py", "say", "--json")
    assert "moo" in called.stdout, called.stderr
    assert log(folder) == [ran]
    for option in ((), ("--uv",)):
        shown = mcpkit("install", "claude-code", "cow.py", "--name", "cow", "--print", *option)
        assert json.loads(shown.stdout)["mcpServers"]["cow"]["args"] == entry


def test_a_script_gets_its_arguments_and_options(folder: Path) -> None:
    (folder / "cow.py").write_text(BLOCK.format("") + SERVER)
    [program] = mcpkit_command()
    called = mcpkit("call", f"{program} run cow.py -- --city Oslo", "say", "--json")
    assert json.loads(called.stdout)["structuredContent"] == ["moo", "--city", "Oslo"]
    mcpkit("run", "cow.py:no_such", "--http", "--port", "8123")
    assert log(folder)[1][-6:] == ["mcpkit", "run", "--http", "--port=8123", "cow.py:no_such", "--"]


def test_a_script_whose_dependencies_are_installed_needs_no_uv(folder: Path) -> None:
    (folder / "cow.py").write_text(
        '# /// script\n# dependencies = ["click", "no-such; python_version < \'3\'"]\n# ///\n'
        + SERVER.replace("import cowsay", "import click as cowsay\ncowsay.WORD = 'click'")
    )
    assert "click" in mcpkit("call", "cow.py", "say").stdout
    assert log(folder) == []


def test_without_uv_the_missing_dependencies_are_named(folder: Path) -> None:
    (folder.parent / "bin" / "uv").unlink()
    (folder / "cow.py").write_text(BLOCK.format("") + SERVER)
    for words in (("run", "cow.py"), ("install", "claude-code", "cow.py", "--print")):
        ended = mcpkit(*words)
        assert ended.returncode == 2
        assert "cow.py needs cowsay>=1, by its `# /// script` block" in ended.stderr


@pytest.mark.parametrize("place", [".", ""])  # as on Windows, where the current folder is on every PATH
def test_a_uv_in_the_current_folder_is_never_started(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "bin" / "uv").rename(folder / "uv")
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{folder.parent / 'bin'}{os.pathsep}{os.defpath}")
    (folder / "cow.py").write_text(BLOCK.format("") + SERVER)
    for words in (("run", "cow.py"), ("install", "claude-code", "cow.py", "--print", "--uv")):
        ended = mcpkit(*words)
        assert "uv" in ended.stderr
        assert "moo" not in ended.stdout
        assert ended.returncode in {1, 2}
    assert log(folder) == []


def test_settings_of_uv_need_a_script_that_runs_itself(folder: Path) -> None:
    file = folder / "cow.py"
    settings = '# [tool.uv.sources]\n# cowsay = { path = "../cowsay" }\n'
    file.write_text(BLOCK.format(settings) + SERVER)
    assert 'Add to the file: if __name__ == "__main__": server.run()' in mcpkit("run", "cow.py").stderr
    file.write_text(BLOCK.format(settings) + SERVER + GUARD)
    assert "moo" in mcpkit("call", "cow.py", "say").stdout


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# /// script\n# ///\n", Inline((), None, has_settings=False)),
        (
            "x = 1\n# /// script\n# dependencies = ['a']\n#\n# ///\nx = 2\n",
            Inline(("a",), None, has_settings=False),
        ),
        (
            "\ufeff# /// script\r\n# requires-python = '>=3'\r\n# ///\r\n",
            Inline((), ">=3", has_settings=False),
        ),
        ("# /// script\n# dependencies = ['a']\n", None),
        ("# /// script\n# dependencies = ['a']\nx = 1\n# ///\n", None),
        ("# /// other\n# dependencies = ['a']\n# ///\n", None),
        ("x = '''\n'''\n", None),
        ("# /// script\n# dependencies = [\n# ///\n", "cannot be read"),
        ("# /// script\n# dependencies = 'a'\n# ///\n", "dependencies must be a list of strings"),
        ("# /// script\n# dependencies = ['a b']\n# ///\n", "cannot be read"),
        ("# /// script\n# requires-python = 'new'\n# ///\n", "cannot be read"),
        ("# /// script\n# ///\n\n# /// script\n# ///\n", "has 2 `# /// script` blocks. Keep one"),
    ],
)
def test_the_block_of_a_script_is_read(text: str, found: Inline | str | None, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_bytes(text.encode())
    if isinstance(found, str):
        with pytest.raises(CommandError, match=found):
            inline_of(file)
    else:
        assert inline_of(file) == found
