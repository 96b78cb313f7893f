"""Files of a project: those that are packed, and those that are watched."""

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from mcpkit.cli.bundle_contents import ProjectFiles, undeclared_imports
from mcpkit.cli.exit_status import CommandError
from mcpkit.cli.reload.file_watcher import edited_files, watch_roots
from mcpkit.cli.script_metadata import read_script_metadata
from tests.helpers.tables import each_row

PATTERNS = (
    *("*.csv", "/a.txt", "data/", "raw", "!a.csv", "!b.csv", "data/*", "**/a.csv", "src/**", "docs/a.*"),
    *("# no rule", "", "a.[ct]*", "/data/raw/*.md", "!notes.md"),
)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "core.excludesFile=", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("inner", ["", "data", "src"])
def test_project_files_equal_those_that_git_does_not_ignore(inner: str, tmp_path: Path) -> None:
    chance = random.Random(inner)
    for number in range(4):
        repository = tmp_path / str(number)
        for folder in ("", "data", "data/raw", "src", "src/data", "docs"):
            (repository / folder).mkdir(exist_ok=True, parents=True)
            for name in ("a.txt", "b.csv", "a.csv", "notes.md", "server.py"):
                (repository / folder / name).touch()
            if chance.random() < 0.4:
                (repository / folder / ".gitignore").write_text("\n".join(chance.choices(PATTERNS, k=3)))
        git(tmp_path, "init", "-q", str(repository))
        rules = [(each, each.read_text()) for each in repository.rglob(".gitignore")]
        listed = git(repository, "ls-files", "--others", "--exclude-standard", inner or ".").splitlines()
        found = {(Path(inner) / each).as_posix() for each in ProjectFiles(repository / inner).paths}
        if listed or not inner:  # a project that is ignored as a whole is packed all the same
            assert {each for each in found if ".gitignore" not in each} == {
                each for each in listed if ".gitignore" not in each
            }, rules


def test_project_files_follow_no_link_to_parent_folder(tmp_path: Path) -> None:
    (folder := tmp_path / "shop" / "data").mkdir(parents=True)
    (folder / "tea.csv").touch()
    (folder / "up").symlink_to("..")
    (folder / "here").symlink_to(".")
    assert ProjectFiles(tmp_path / "shop").paths == [Path("data/tea.csv")]


DECLARED = ("mcpkit[client]", "packaging", "no-such-distribution>=1; python_version < '3'")
PROVIDED = (
    "json", "os.path", "mcpkit", "packaging.version", "pydantic", "starlette.routing", "httpx2", "own",
)  # fmt: skip
MISSING = {"hypothesis": "hypothesis", "PIL.Image": "pillow", "no_such_module": None, "redis": "redis"}
REQUIRED = (
    "import {0}\n", "import json, {0} as it\n", "from {0} import something\n",
    "def function():\n    import {0}\n", "class Kind:\n    from {0} import *\n",
    "if True:\n    with open('x'):\n        import {0}\n", "try:\n    pass\nfinally:\n    import {0}\n",
    "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    import {0}\n",
    "if TYPE_CHECKING:\n    pass\nelse:\n    import {0}\n",
)  # fmt: skip
OPTIONAL = (
    "try:\n    import {0}\nexcept ImportError:\n    pass\n",
    "if TYPE_CHECKING:\n    import {0}\n",
    "if typing.TYPE_CHECKING:\n    from {0} import x\n",
    "x = 'import {0}'\n",
)


def undeclared_modules(root: Path, entry: str, **texts: str) -> set[tuple[str, str | None]]:
    """Write the files of a project, and return its undeclared modules with their distributions."""
    for name, text in texts.items():
        file = root / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in {*file.parents} - {root, *root.parents}:
            (folder / "__init__.py").touch()
        file.write_text(text)
    found = undeclared_imports(root / entry, root, sorted(root.rglob("*.py")), DECLARED)
    return {(each.module, each.distribution) for each in found}


def test_undeclared_finds_required_imports_only(tmp_path: Path) -> None:
    for number, text in enumerate((*REQUIRED, *OPTIONAL)):
        for module in (*PROVIDED, *MISSING):
            root = tmp_path / f"{number} {module}"
            found = undeclared_modules(root, "server.py", server=text.format(module), own="")
            is_missing = module in MISSING and text in REQUIRED
            assert found == ({(module.partition(".")[0], MISSING[module])} if is_missing else set()), text


@pytest.mark.parametrize(("name", "text"), [
    ("helper", "import helper\n"), ("helper", "from helper import *\n"),
    ("helper", "def f():\n    import helper\n"), ("shop__parts__helper", "from .parts import helper\n"),
    ("shop__parts__helper", "from shop.parts.helper import x\n"),
    ("shop__parts__helper", "import shop.parts.helper\n"),
])  # fmt: skip
def test_undeclared_follows_imports_within_the_project(tmp_path: Path, name: str, text: str) -> None:
    entry = "server" if name == "helper" else "shop__server"
    texts = {name: "import redis\n", "unused": "import hypothesis\n"}
    path = f"{entry.replace('__', '/')}.py"
    assert undeclared_modules(tmp_path / "linked", path, **{entry: text}, **texts) == {("redis", "redis")}
    assert undeclared_modules(tmp_path / "apart", path, **{entry: ""}, **texts) == set()


def test_undeclared_ignores_modules_of_uninstalled_dependencies(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text("import no_such_module\nimport redis\nimport __main__\n")
    found = undeclared_imports(file, tmp_path, [file], ["no-such-distribution"])
    assert [(each.module, each.line) for each in found] == [("redis", 2)]
    assert undeclared_imports(file, tmp_path, [file], ["no-such-module", "redis"]) == []


@pytest.fixture
async def edits(tmp_path: Path) -> AsyncIterator[AsyncGenerator[list[str]]]:
    (tmp_path / "server.py").write_text("first")
    for ignored in (".venv/lib", "node_modules", "__pycache__", ".git"):
        (tmp_path / ignored).mkdir(parents=True)
    (tmp_path / "shop").mkdir()
    async with aclosing(edited_files([tmp_path])) as edits:
        assert await anext(edits) == []
        yield edits


async def next_names(edits: AsyncGenerator[list[str]]) -> list[str]:
    return [Path(each).name for each in await asyncio.wait_for(anext(edits), 30)]


async def test_edits_report_written_renamed_and_removed_files(tmp_path, edits) -> None:
    server = tmp_path / "server.py"
    server.write_text("second time")
    assert await next_names(edits) == ["server.py"]
    (tmp_path / "server.py.tmp").write_text("third")  # as editors do it that replace a file at once
    os.replace(tmp_path / "server.py.tmp", server)
    assert await next_names(edits) == ["server.py"]
    (tmp_path / "shop" / "prices.py").write_text("in a folder below")
    assert await next_names(edits) == ["prices.py"]
    (tmp_path / "shop" / "prices.py").unlink()
    assert await next_names(edits) == ["prices.py"]


async def test_edits_ignore_files_that_are_no_code(tmp_path: Path, edits: AsyncGenerator[list[str]]) -> None:
    for ignored in (
        *(".venv/lib/other.py", "node_modules/other.py", "__pycache__/other.py", ".git/other.py"),
        *("notes.txt", ".#server.py", "#server.py#", "server.py~", ".server.py.swp", "4913"),
    ):
        (tmp_path / ignored).write_text("")
    os.utime(tmp_path)
    (tmp_path / "a.py").write_text("seen")
    assert await next_names(edits) == ["a.py"]


def test_roots_of_server_are_its_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "project" / "src" / "shop"
    inner.mkdir(parents=True)
    (inner / "__init__.py").write_text("")
    (inner / "server.py").write_text("")
    assert watch_roots(str(inner / "server.py")) == [inner.parent]
    (tmp_path / "project" / "pyproject.toml").write_text("")
    assert watch_roots(f"{inner / 'server.py'}:mcp") == [tmp_path / "project"]
    monkeypatch.chdir(tmp_path / "project")
    assert watch_roots("absent.server:mcp") == [tmp_path / "project"]
    monkeypatch.setenv("HOME", str(tmp_path / "project"))
    assert watch_roots(str(inner / "server.py")) == [inner.parent]
    with pytest.raises(CommandError, match="the server must be"):
        watch_roots("npx")


# Dependencies that a script declares


@each_row(("block", "problem"), [
    ("dependencies = [", "invalid `# /// script` block: "), ("dependencies = 5", "a list of strings"),
    ("dependencies = [5]", "a list of strings"), ('dependencies = ["a b"]', "invalid `# /// script` block: "),
    ("requires-python = 3", "requires-python must be a string"),
    ('requires-python = "three"', "invalid `# /// script` block: "),
    ("# ///\n# /// script", "has 2 `# /// script`"),
])  # fmt: skip
def test_script_block_invalid_is_refused(block: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "tea.py").write_text(f"# /// script\n# {block}\n# ///\n")
    with pytest.raises(CommandError, match=problem):
        read_script_metadata(tmp_path / "tea.py")


def test_script_block_ends_with_its_comment(tmp_path: Path) -> None:
    file = tmp_path / "tea.py"
    file.write_text('# /// script\n#\n# dependencies = ["a>=1"]\n# ///\n# ///\nimport a\n')
    with pytest.raises(CommandError, match="invalid"):  # the last such line of the comment ends the block
        read_script_metadata(file)
    file.write_text('#!/bin/python\n# /// script\n# dependencies = ["a>=1"]\n# ///\nimport a\n')
    found = read_script_metadata(file)
    assert found is not None
    assert (found.dependencies, found.python) == (("a>=1",), None)
    for text in ("import a\n", "# /// script\n# dependencies = []\nimport a\n"):
        file.write_text(text)
        assert read_script_metadata(file) is None
