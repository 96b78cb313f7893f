"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 450
FOLDERS = ["mcpkit", "tests", "examples", "bench", "docs"]
TEXT = {".json", ".md", ".mjs", ".py", ".toml", ".yml"}
LEFT_OUT = {"node_modules", "__pycache__"}

IGNORE = re.compile(r"#\s*(type|pyright): ?ignore")
WITH_CODE_AND_REASON = re.compile(r"#\s*(type|pyright): ?ignore\[[\w, -]+\]\s+#\s*(?!type:|pyright:)\S.{5}")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home/\w+|Users/\w+)/")


def files(folder: str) -> Iterator[Path]:
    for path in (ROOT / folder).rglob("*"):
        if path.is_file() and path.suffix in TEXT and LEFT_OUT.isdisjoint(path.parts):
            yield path


def comments(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def test_every_ignored_type_error_has_its_code_and_a_reason():
    bad = [
        f"{path.relative_to(ROOT)}:{line}: {comment}"
        for path in files("mcpkit")
        if path.suffix == ".py"
        for line, comment in comments(path)
        if IGNORE.search(comment) and not WITH_CODE_AND_REASON.search(comment)
    ]
    assert bad == [], "write `# type: ignore[code]  # reason`"


@pytest.mark.parametrize(
    ("comment", "fits"),
    [
        ("# type: ignore[misc]  # a TypedDict made at run time", True),
        ("# pyright: ignore[reportPrivateUsage]  # asyncio offers no public name", True),
        ("# type: ignore", False),
        ("# type: ignore[misc]", False),
        ("# type: ignore  # because", False),
        ("# type: ignore[misc]  # pyright: ignore[reportArgumentType]", False),
    ],
)
def test_the_rule_for_ignored_type_errors(comment, fits):
    assert bool(WITH_CODE_AND_REASON.search(comment)) is fits


@pytest.mark.parametrize("folder", ["mcpkit", "tests"])
def test_no_file_of_the_package_and_of_its_tests_is_long(folder):
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in files(folder)
        if path.suffix == ".py"
    }
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_path_of_somebodys_machine_is_written_down():
    bad = [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for folder in FOLDERS
        for path in files(folder)
        if (found := MACHINE_PATH.search(path.read_text("utf-8")))
    ]
    assert bad == []
