"""Projects that begin: they run, and are formatted, typed and tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tomlkit

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


@pytest.mark.parametrize("recorded", [None, {"url": "https://example.com/mcpkit.whl", "archive_info": {}}])
def test_dependencies_name_mcpkit_as_it_was_installed(
    recorded: dict[str, object] | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = folder / "site" / "mcpkit-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mcpkit\nVersion: 0.1.0\n")
    if recorded is not None:
        (metadata / "direct_url.json").write_text(json.dumps(recorded))
    monkeypatch.setattr(sys, "path", [str(metadata.parent), *sys.path])
    assert run(["new", "tea"]) == 0
    project = tomlkit.parse((folder / "tea" / "pyproject.toml").read_text()).unwrap()
    place = "" if recorded is None else " @ https://example.com/mcpkit.whl"
    assert project["project"]["dependencies"] == [f"mcpkit{place}"]
    assert f"mcpkit[cli]{place}" in project["project"]["optional-dependencies"]["dev"]
    allowed = project["tool"]["hatch"].get("metadata", {}).get("allow-direct-references", False)
    assert allowed == (recorded is not None)
    readme = (folder / "tea" / "README.md").read_text()
    assert 'pip install --editable ".[dev]"' in readme
    assert "--group" not in readme
