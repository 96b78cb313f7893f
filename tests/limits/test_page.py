"""The page on limits says what the code and the tests do: each row is tested, each bound has a row."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.limits.rows import NO_BOUNDS, ROWS, numbers_in, settings, value_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text()
TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| what is", "| ---"))
]
BOUND = re.compile(
    r"^ *(?P<name>_?(?:[A-Z]+_)*(?:MOST|MAX|LONGEST|LARGEST|LARGE|DEEPEST|LIMIT|MANY|MUCH|PATIENCE|TRIES|KEPT|ROOM|"
    r"BURST|TIMEOUT|BRIEF|SHORT|SOON|LATE|AT_A_TIME)(?:_[A-Z]+)*)(?:: [^=]*)? = [^({\[\"']*\d",
    re.MULTILINE,
)


def marked() -> Iterator[str]:
    """Find the rows that tests hold: `@limit("...")` here, and the mark itself elsewhere."""
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text()
        if "limit(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in node.decorator_list:
                    if isinstance(each, ast.Call) and ast.unparse(each.func) in {
                        "limit",
                        "pytest.mark.limit",
                    }:
                        yield ast.literal_eval(each.args[0])


def test_each_row_is_tested_and_what_is_tested_has_a_row() -> None:
    tested = Counter(marked())
    assert set(ROWS) == set(tested)


def test_the_page_has_each_row_once() -> None:
    assert [row[0] for row in TABLE] == list(ROWS)


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_a_row_names_the_setting_and_the_default(row: list[str]) -> None:
    name, setting, default, told = row
    sources = ROWS[name]
    named = [source for source in sources if isinstance(source, str) and ":" not in source]
    assert setting == (f"`{named[0]}`" if named else "fixed")
    assert numbers_in(default) == [number for source in sources for number in value_of(source)]
    assert told


def test_each_setting_that_is_a_number_has_a_row() -> None:
    in_rows = {source for sources in ROWS.values() for source in sources}
    assert set(settings()) - in_rows - set(NO_BOUNDS) == set()


_ASKING = ("client", "cli")
"""Rooms that bound nothing of a server's: the client has a page of its own, and commands are clients."""


def test_each_constant_that_bounds_something_has_a_row() -> None:
    in_rows = {
        f"{module.rpartition('.')[2]}.py:{path.rpartition('.')[2]}"
        for sources in ROWS.values()
        for module, _, path in (str(source).partition(":") for source in sources)
    }
    found = {
        f"{file.name}:{match['name']}"
        for file in (ROOT / "mcpkit").rglob("*.py")
        if not any(file.is_relative_to(ROOT / "mcpkit" / room) for room in _ASKING)
        for match in BOUND.finditer(file.read_text())
    }
    missing = found - in_rows - set(NO_BOUNDS)
    assert not missing, "add rows to docs/reference/limits.md, or say in NO_BOUNDS what these are"


def test_the_page_is_linked_from_where_one_looks_for_limits() -> None:
    for page in ("security", "deploy"):
        assert "../reference/limits.md" in (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
