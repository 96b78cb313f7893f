"""Rules for Python blocks of the documentation: each is a whole file, and is at most 80 columns wide."""

import subprocess
import sys
from pathlib import Path

import pytest

from .not_run import PAGE, not_run, text
from .pages import ROOT, blocks_of

MAX_NOT_RUN = 15


def test_python_blocks_are_whole_files_of_at_most_80_columns(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in blocks_of(page.read_text()):
            if block.language == "python":
                place = f"{page.relative_to(ROOT)}:{block.line}".replace("/", "_")
                (tmp_path / f"{place}.py").write_text(block.text)
    # F821: an undefined name; PLE1142: an `await` outside a function; E501: a long line. Syntax errors come anyway.
    options = ["--isolated", "--no-cache", "--line-length=80", "--select=F821,PLE1142,E501", "--preview"]
    ruff = [sys.executable, "-m", "ruff", "check", *options, "--output-format=concise", tmp_path]
    done = subprocess.run(ruff, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_few_python_blocks_are_not_run() -> None:
    places = [
        f"{page}:{block.line}: {block.reason}" for page, block in not_run() if block.language == "python"
    ]
    assert len(places) <= MAX_NOT_RUN, "\n".join(places)


def test_page_lists_examples_that_are_not_run() -> None:
    assert PAGE.read_text() == text(), "run `make house`"
