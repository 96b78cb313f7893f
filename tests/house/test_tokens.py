"""What counts as code, where tokens are counted and lines are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from lines import draw, lines_of
from tokens import by_room, code_of

MODULE = '''"""What it is."""

from typing import (
    Any,
)

# why
x: Any = (
    1
)
"""What x is."""


def double(y: int) -> int:
    """Return twice as much."""
    return f"{y!r} is {y:>{y}}" and y * 2
'''


def test_layout_comments_and_docstrings_are_no_code() -> None:
    assert [each.string for each in code_of('"""a"""\nx = (  # b\n    "c"\n)\n"d"\n')] == [
        "x",
        "=",
        "(",
        '"c"',
        ")",
    ]


@pytest.mark.parametrize("text", ['x = f"{a} {b!r:>{c}}"', "x = f\"{f'{a}'}\" # b", 'x = "a"'])
def test_an_f_string_is_one_token(text: str) -> None:
    assert len(code_of(text)) == 3


def test_a_docstring_after_characters_of_several_bytes() -> None:
    assert [each.string for each in code_of('x = "é"; "doc"; y = 1')][-3:] == ["y", "=", "1"]


def test_longer_names_and_broken_lines_change_nothing() -> None:
    assert len(code_of("x = [a, b]")) == len(code_of("a_longer_name = [\n    another, \n    b]"))


def test_a_drawn_line_says_something() -> None:
    assert [MODULE.splitlines()[line - 1].strip() for line in lines_of(MODULE)] == [
        "x: Any = (",
        "def double(y: int) -> int:",
    ]


def test_a_seed_draws_the_same_lines_again(tmp_path: Path) -> None:
    (tmp_path / "low").mkdir()
    (tmp_path / "low" / "a.py").write_text(MODULE)
    (tmp_path / "b.py").write_text("c = d\ne = f\n")
    assert draw(tmp_path, 7, 4) == draw(tmp_path, 7, 4)
    assert by_room(tmp_path) == {"low/": len(code_of(MODULE)), "b.py": 6}
    assert by_room(tmp_path, ["low"]) == {"b.py": 6}
