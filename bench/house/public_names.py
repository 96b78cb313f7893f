"""The table of tests that show the use of each public name: tests/README.md.

python bench/house/public_names.py           write the table anew; rows that still hold stay as they are
python bench/house/public_names.py --missing do so, and print the public names that no short test uses
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
TABLE = TESTS / "README.md"
MODULES = ("mcpkit", "mcpkit.auth", "mcpkit.middleware", "mcpkit.testing", "mcpkit.transports")
LONGEST = 15
"""Lines that a test may have to count as an example of use."""
HEAD = """# Tests as examples

One short test for each public name that has one, as an example of its use. `make house` writes this table.

| name | test |
| --- | --- |
"""
_ROW = re.compile(r"^\| `([\w.]+)` \| \[(\w+)\]\((\S+?)(?:#L\d+)?\) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A test function that uses public names.

    Args:
        file: Its file, relative to `tests/`.
        function: Its name.
        names: The public names that its body uses, in full.
        lines: Its length in lines.
    """

    file: str
    function: str
    names: frozenset[str]
    lines: int


def public_names() -> list[str]:
    """Return every public name in full, each once: a name that a sub-module repeats counts for the first module."""
    found: dict[int | str, str] = {}
    for module in MODULES:
        namespace = importlib.import_module(module)
        for name in sorted(namespace.__all__):
            value = getattr(namespace, name)
            found.setdefault(id(value) if callable(value) else f"{module}.{name}", f"{module}.{name}")
    return sorted(found.values(), key=str.lower)


def examples() -> Iterator[Example]:
    """Yield the short test functions; in `tests/typed`, where type checkers are the judge, all functions."""
    for path in sorted({*TESTS.rglob("test_*.py"), *(TESTS / "typed").glob("*.py")}):
        is_typed = path.parent.name == "typed"
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module in MODULES
            for alias in node.names
        }
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not (is_typed or node.name.startswith("test_")):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines <= LONGEST:
                used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                names = frozenset(imported[name] for name in used if name in imported)
                yield Example(path.relative_to(TESTS).as_posix(), node.name, names, lines)


def rank(name: str, example: Example) -> tuple[bool, bool, bool, int]:
    """Order the tests that use a name: unit tests, then those named after it, then those of few names."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(".")[2]).lower()
    is_far = example.file.startswith(("integration/", "conformance/", "compat/"))
    is_named = words in example.function or words in example.file
    return is_far, not is_named, example.lines < 4, len(example.names)


def rows() -> dict[str, tuple[str, str]]:
    """Return the rows of the table as it is: the function and the file of each name."""
    text = TABLE.read_text("utf-8") if TABLE.exists() else ""
    return {name: (function, file) for name, function, file in _ROW.findall(text)}


def table() -> tuple[str, list[str]]:
    """Return the text of the table, and the names without a test. Rows of today's table that still hold stay."""
    every = list(examples())
    before = rows()
    lines, missing = [], []
    for name in public_names():
        using = [each for each in every if name in each.names]
        kept = [each for each in using if (each.function, each.file) == before.get(name)]
        if not using:
            missing.append(name)
            continue
        best = kept[0] if kept else min(using, key=lambda each: rank(name, each))
        lines.append(f"| `{name}` | [{best.function}]({best.file}) |\n")
    return HEAD + "".join(lines), missing


if __name__ == "__main__":
    text, without = table()
    TABLE.write_text(text, "utf-8")
    print("\n".join(without) if "--missing" in sys.argv else f"{len(without)} public names without a test")
