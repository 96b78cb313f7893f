"""Draw `packages.svg`: the packages of mcpkit and their imports, read from the code.

.venv/bin/python docs/assets/packages.py

An arrow leads from a package to one that it imports. An import that follows from others is left out: the picture is
the transitive reduction of all imports.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "mcpkit"
DRAWN: Final = Path(__file__).with_name("packages.svg")

WIDTH: Final = 880
BOX: Final = (118, 30)
STEP: Final = BOX[0] + 44
ROW: Final = 62
MARGIN: Final = 24

HEAD: Final = """\
<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 8 4 0 8z" />
</marker>"""

STYLE: Final = """\
text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; text-anchor: middle }
.package { fill: #eef4fb; stroke: #2563a8 }
.module { fill: #ffffff; stroke: #8a939d }
.import { stroke: #8a939d; fill: none; marker-end: url(#arrow) }
marker path { fill: #8a939d }"""


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level packages and modules of mcpkit that a file imports."""
    package = ["mcpkit", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            module = [*start, *(node.module.split(".") if node.module else [])]
            names = [[*module, alias.name] for alias in node.names]
        for name in names:
            if name[0] == "mcpkit" and len(name) > 1:
                yield name[1]


def graph() -> dict[str, set[str]]:
    """Return the packages and modules in `mcpkit/` with those that each imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if not name.startswith("__"):
            found[name] |= set(imported(path)) - {name}
    known = set(found)
    return {name: imports & known for name, imports in sorted(found.items())}


def svg() -> str:
    """Return the picture."""
    imports = graph()

    @cache
    def reached(name: str) -> frozenset[str]:
        return frozenset(imports[name]).union(*map(reached, imports[name]))

    @cache
    def level(name: str) -> int:
        return 1 + max(map(level, imports[name]), default=-1)

    arrows = [
        (name, other)
        for name in imports
        for other in sorted(imports[name])
        if not any(other in reached(between) for between in imports[name])
    ]
    rows: dict[int, list[str]] = defaultdict(list)
    for name in imports:
        rows[level(name)].append(name)
    top = max(rows)
    places: dict[str, tuple[float, float]] = {}
    for number in sorted(rows):  # from the bottom: each name above the middle of what it imports
        below = {name: [places[o][0] for n, o in arrows if n == name] for name in rows[number]}
        order = sorted(rows[number], key=lambda name: (sum(below[name]) / (len(below[name]) or 1), name))
        for index, name in enumerate(order):
            x = WIDTH / 2 + (index - (len(order) - 1) / 2) * STEP
            places[name] = (x, MARGIN + (top - number) * ROW + BOX[1] / 2)
    height = MARGIN * 2 + top * ROW + BOX[1]
    parts = [_arrow(places[name], places[other]) for name, other in arrows]
    parts += [_box(name, *places[name]) for name in imports]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>The packages of mcpkit; an arrow leads to a package that is imported</title>",
            f"<style>\n{STYLE}\n</style>",
            HEAD,
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff" stroke="#d0d7de" />',
            *parts,
            "</svg>\n",
        ]
    )


def _box(name: str, x: float, y: float) -> str:
    is_package = (PACKAGE / name).is_dir()
    left, top = x - BOX[0] / 2, y - BOX[1] / 2
    kind, label = ("package", f"{name}/") if is_package else ("module", f"{name}.py")
    return (
        f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{BOX[0]}" height="{BOX[1]}" rx="5" />'
        f'<text x="{x:g}" y="{y + 4.5:g}">{label}</text>'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = start, end
    y, to_y = y + BOX[1] / 2, to_y - BOX[1] / 2
    if to_y - y <= ROW:
        return f'<path class="import" d="M{x:g} {y:g}{_curve(x, y, to_x, to_y)}" />'
    gap = to_x + STEP / 2  # between the boxes of the rows that it passes
    middle = to_y - ROW + BOX[1]
    curves = _curve(x, y, gap, middle - BOX[1]) + f"V{middle:g}" + _curve(gap, middle, to_x, to_y)
    return f'<path class="import" d="M{x:g} {y:g}{curves}" />'


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    bend = (to_y - y) / 2
    return f"C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"


if __name__ == "__main__":
    DRAWN.write_text(svg(), "utf-8")
