"""Files of a project that go into a bundle, compared with those that Git does not ignore."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from mcpkit.cli.packing.files import LARGE, ProjectFiles

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
FOLDERS = ("", "data", "data/raw", "src", "src/data", "docs")
NAMES = ("a.txt", "b.csv", "a.csv", "notes.md", "server.py")
PATTERNS = (
    "*.csv", "/a.txt", "data/", "raw", "!a.csv", "!b.csv", "data/*", "**/a.csv", "src/**", "docs/a.*", "# no rule", "",
    "a.[ct]*", "/data/raw/*.md", "!notes.md",
)  # fmt: skip


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_files_that_git_ignores_are_left_out(tmp_path: Path) -> None:
    chance = random.Random(11)
    for number in range(EXAMPLES // 4):
        repository = tmp_path / str(number)
        for folder in FOLDERS:
            (repository / folder).mkdir(exist_ok=True, parents=True)
            for name in NAMES:
                (repository / folder / name).touch()
            if chance.random() < 0.4:
                (repository / folder / ".gitignore").write_text("\n".join(chance.choices(PATTERNS, k=3)))
        git(tmp_path, "init", "-q", str(repository))
        inner = chance.choice(["", "data", "src"])
        listed = git(repository, "ls-files", "--others", "--exclude-standard", "-z", inner or ".").split("\0")
        wanted = {each for each in listed if each and not each.endswith(".gitignore")}
        probe = subprocess.run(
            ["git", "check-ignore", "-q", f"{inner or '.'}/__init__.py"], cwd=repository, check=False
        )
        if inner and probe.returncode == 0:  # the whole project is ignored, and is packed all the same
            continue
        found = ProjectFiles(repository / inner).paths
        assert {(Path(inner) / each).as_posix() for each in found if each.name != ".gitignore"} == wanted, [
            (each, each.read_text()) for each in repository.rglob(".gitignore")
        ]


def test_a_project_that_the_repository_ignores_is_packed(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/scratch/\n*.csv\n")
    project = tmp_path / "scratch" / "shop"
    project.mkdir(parents=True)
    (project / "server.py").touch()
    assert ProjectFiles(project).paths == [Path("server.py")]


def test_large_files_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    for name, size in {
        "server.py": 1,
        "model.bin": LARGE + 1,
        "whole.bin": LARGE + 1,
        "fits.bin": LARGE,
    }.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    (tmp_path / ".mcpbignore").write_text("!whole.bin\n")
    files = ProjectFiles(tmp_path)
    assert [path.name for path in files.paths] == [".mcpbignore", "fits.bin", "server.py", "whole.bin"]
    assert files.large == [tmp_path / "model.bin"]
    assert Path("model.bin") in ProjectFiles(tmp_path, takes_large=True).paths


def test_a_link_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    (folder := tmp_path / "shop" / "data").mkdir(parents=True)
    (folder / "tea.csv").touch()
    (folder / "up").symlink_to("..")
    (folder / "here").symlink_to(".")
    assert ProjectFiles(tmp_path / "shop").paths == [Path("data/tea.csv")]
