"""Draws lines of code from the package, for whoever wants to guess in which room each of them stands.

    python bench/house/lines.py --seed 7          # the lines alone
    python bench/house/lines.py --seed 7 --key    # and where they stand

The same seed draws the same lines from the same code. A line that is drawn has two names or more in it; blank lines,
imports, comments, docstrings and what is too short to say anything are never drawn. The rooms are those of
`docs/architecture.md`. A line that stands in several rooms, word for word, belongs to each of them.
"""

from __future__ import annotations

import argparse
import ast
import keyword
import random
import token
from pathlib import Path

from floors import room
from imports import ROOT
from tokens import code_of


def lines_of(text: str) -> list[int]:
    """Return the numbers of the lines of a module that can be drawn."""
    imported = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    names: dict[int, set[str]] = {}
    for each in code_of(text):
        if each.type == token.NAME and not keyword.iskeyword(each.string):
            names.setdefault(each.start[0], set()).add(each.string)
    return sorted(line for line, found in names.items() if len(found) > 1 and line not in imported)


def draw(package: Path, seed: int, count: int) -> list[tuple[str, int, str, list[str]]]:
    """Return lines with their files and numbers, and the rooms in which they stand."""
    texts = {path.relative_to(package).as_posix(): path.read_text("utf-8") for path in package.rglob("*.py")}
    places = [(name, line) for name in sorted(texts) for line in lines_of(texts[name])]
    drawn = random.Random(seed).sample(places, count)
    found = [(name, line, texts[name].splitlines()[line - 1].strip()) for name, line in drawn]
    held = {name: {each.strip() for each in text.splitlines()} for name, text in texts.items()}
    return [(*each, sorted({room(name) for name in held if each[2] in held[name]})) for each in found]


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--key", action="store_true", help="say where each line stands")
    options = parser.parse_args()
    for number, (name, line, text, rooms) in enumerate(
        draw(options.checkout / "mcpkit", options.seed, options.count), 1
    ):
        print(f"{number:2}  {text}" + (f"    # {name}:{line}, in {', '.join(rooms)}" if options.key else ""))


if __name__ == "__main__":
    main()
