"""Counts the tokens of code in the package, folder by folder: of this checkout, and of another beside it.

    python bench/house/tokens.py
    python bench/house/tokens.py ../other-checkout --base ../third-checkout
    python bench/house/tokens.py --without client --base ../other-checkout

A token is what Python's own `tokenize` says, without comments, docstrings, ends of lines and indentation: how long
names are and how lines are broken changes nothing. A docstring is any string that stands as a statement of its own.
An f-string is one token, as it was before Python 3.12, so that every Python counts the same.
"""

from __future__ import annotations

import argparse
import ast
import io
import token
import tokenize
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final

from floors import room
from imports import ROOT

LAYOUT: Final = frozenset(
    {
        token.COMMENT,
        token.DEDENT,
        token.ENCODING,
        token.ENDMARKER,
        token.INDENT,
        token.NEWLINE,
        token.NL,
    }
)
F_START: Final = getattr(token, "FSTRING_START", -1)
F_END: Final = getattr(token, "FSTRING_END", -1)

Place = tuple[int, int]
"""A line, from 1, and a column, from 0."""


def code_of(text: str) -> list[tokenize.TokenInfo]:
    """Return the tokens of code in a module; the first one stands for a whole f-string."""
    docstrings = _docstrings(text)
    found: list[tokenize.TokenInfo] = []
    depth = 0  # of f-strings within f-strings
    for each in tokenize.generate_tokens(io.StringIO(text).readline):
        if each.type == F_END:
            depth -= 1
            continue
        if each.type not in LAYOUT and not depth and not _is_within(each.start, docstrings):
            found.append(each)
        depth += each.type == F_START
    return found


def _docstrings(text: str) -> list[tuple[Place, Place]]:
    lines = text.splitlines(keepends=True)
    found: list[tuple[Place, Place]] = []
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
            end = len(lines[node.end_lineno - 1].encode()[: node.end_col_offset].decode())
            found.append(((node.lineno, start), (node.end_lineno, end)))
    return found


def _is_within(place: Place, ranges: list[tuple[Place, Place]]) -> bool:
    return any(start <= place < end for start, end in ranges)


def by_room(package: Path, without: Collection[str] = ()) -> Counter[str]:
    """Return the tokens of each room of a package, some rooms left out."""
    found: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        name = room(path.relative_to(package).as_posix())
        if name.rstrip("/") not in without:
            found[name] += len(code_of(path.read_text("utf-8")))
    return found


def main() -> None:
    """Count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--base", type=Path, help="another checkout, to compare with")
    parser.add_argument("--without", action="append", default=[], help="a room to leave out, such as client")
    options = parser.parse_args()
    now = by_room(options.checkout / "mcpkit", options.without)
    base = now if options.base is None else by_room(options.base / "mcpkit", options.without)
    for name in sorted(now | base, key=lambda each: (not each.endswith("/"), each)):
        _tell(name, now[name], base[name])
    _tell("the package", now.total(), base.total())


def _tell(name: str, now: int, base: int) -> None:
    print(f"{name:20} {now:8,}" + (f"  {now - base:+7,}  of {base:,}" if now != base else ""))


if __name__ == "__main__":
    main()
