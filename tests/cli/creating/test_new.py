"""Projects that begin: they run, and are formatted, typed and tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit.cli.app import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "description", [None, 'Says "good" \'day\' \\ and """bye""", to whoever asks ' + "politely " * 8]
)
def test_a_project_is_formatted_typed_and_tested(description: str | None, folder: Path) -> None:
    told = [] if description is None else ["--description", description]
    assert run(["new", "Good Day", *told]) == 0
    project = folder / "Good Day"
    for command in (
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        ["mypy"],
        ["pytest", "-q", "-p", "no:cacheprovider"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "good_day" / "server.py").is_file()
    assert "${{ matrix.python }}" in (project / ".github" / "workflows" / "ci.yml").read_text()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("json", "a package called json would hide another: write json-server"),
        ("mcpkit", "a package called mcpkit would hide another"),
        ("9lives", "'9lives' can be no name of a project"),
        ("taken", "taken is there already, and is not an empty folder"),
    ],
)
def test_other_names_are_refused(
    name: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "taken").mkdir()
    (folder / "taken" / "file").touch()
    assert run(["new", name]) == 1
    assert told in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_an_empty_folder_is_taken(folder: Path) -> None:
    (folder / "deep" / "tea").mkdir(parents=True)
    assert run(["new", "deep/tea"]) == 0
    assert (folder / "deep" / "tea" / "tea" / "server.py").is_file()
