"""Counts what the house is to have less of, and holds it against `tests/house/counts.json`, where nothing may grow.

python bench/house/counts.py            # the counts
python bench/house/counts.py --update   # writes down those that are smaller now
python bench/house/counts.py -v         # where the private names are reached for, the circles, the imports upward
python bench/house/counts.py --package ../other-checkout/mcpkit
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from floors import Floors, rooms
from imports import PACKAGE, ROOT, Graph, Trees, circles, entries, imports, reaches, read, uses
from tokens import code_of

FACADE: Final = ("compat/*.py", "compat/fastmcp/*.py", "compat/lowlevel/*.py")
"""What has servers of `mcp` 1.x run on the engine."""

BESIDE: Final = frozenset(
    {"__init__.py", "__main__.py", "standing_in.py", "agent_sdk.py", "agent_sdk_schemas.py"}
)
"""What stands in `compat/` and is none of it: how such servers are started, and agents."""

SPREAD: Final = ("uses of Any", "uses of Incomplete", "uses of cast")
"""What every change may add to and take from: written down when all have landed, as two that land at once disagree."""

KEPT: Final = ROOT / "tests" / "house" / "counts.json"


def counts(package: Path, trees: Trees, graph: Graph) -> dict[str, int]:
    """Return what is counted, by name.

    Args:
        package: The folder of the package.
        trees: Its code.
        graph: What its modules import.
    """
    found = circles(graph)
    of_any, incomplete, casts = uses(trees, "Any", "Incomplete", "cast")
    return {
        "modules in the largest circle": len(found[0]) if found else 0,
        "modules in circles": sum(map(len, found)),
        "rooms in circles": sum(map(len, circles(rooms(graph)))),
        "imports of a higher floor": len(list(Floors.declared().upward(graph))),
        "private reaches": len(reaches(trees, package.name)),
        "entries at the root": len(entries(package)),
        "lines of code for servers of mcp 1.x": sum(map(_lines, _facade(package))),
        "uses of Any": of_any,
        "uses of Incomplete": incomplete,  # which is another name of it
        "uses of cast": casts,
    }


def _facade(package: Path) -> list[Path]:
    found = [path for pattern in FACADE for path in package.glob(pattern)]
    return [path for path in found if path.parent.name != "compat" or path.name not in BESIDE]


def _lines(path: Path) -> int:
    """Return how many lines have code: neither a comment, nor a docstring, nor nothing."""
    code = code_of(path.read_text("utf-8"))
    return len({line for each in code for line in range(each.start[0], each.end[0] + 1)})


def kept() -> dict[str, int]:
    """Return the counts that are written down."""
    numbers: dict[str, int] = json.loads(KEPT.read_text("utf-8"))
    return numbers


def main() -> None:
    """Count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", type=Path, default=PACKAGE)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    package = options.package.resolve()
    trees = read(package)
    graph = imports(trees, package.name)
    now, before = counts(package, trees, graph), kept()
    for name, number in now.items():
        change = number - before.get(name, number)
        print(f"{name:40} {number:6,}" + (f"  {change:+}" if change else ""))
    if options.verbose:
        print("", *reaches(trees, package.name), sep="\n")
        print("", *(" ".join(each) for each in circles(graph)), sep="\n")
        print("", *(f"{low} imports {high}" for low, high in Floors.declared().upward(graph)), sep="\n")
    if options.update:
        held = {} if options.all else {name: before[name] for name in SPREAD if name in before}
        lower = {name: min(number, before.get(name, number)) for name, number in now.items()} | held
        KEPT.write_text(json.dumps(lower, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
