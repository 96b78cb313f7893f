"""Draws the picture of the house from its code: floors, the rooms on them, the modules in these, and who imports whom.

    python bench/house/picture.py                                     # docs/assets/house.svg
    python bench/house/picture.py ../other-checkout --out before.svg  # of another checkout

The same code draws the same picture, byte for byte. The floors are those of `tests/house/floors.txt`. An arrow stands
for all imports between two rooms; one that runs down and is implied by others is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from math import ceil
from pathlib import Path
from typing import Final

from floors import Floors, room, rooms
from imports import PACKAGE, ROOT, Graph, circles, imports, reachable, read

DRAWN: Final = ROOT / "docs" / "assets" / "house.svg"

WIDTH: Final = 1240
MARGIN: Final = 16
GAP: Final = 14
STOREY: Final = 56
"""What is between two floors, for the arrows."""
LINE: Final = 14
LETTER: Final = 6.1
"""How wide a letter of 10 pixels is, in a font whose letters are all as wide."""
TITLE: Final = 7.4
"""The same for the 12 pixels of a name."""
MOST_LINES: Final = 5

GREY: Final = "#8a939b"
RED: Final = "#d1242f"

STYLE: Final = f"""\
text {{ font-family: ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }}
.name {{ font-size: 12px; font-weight: bold }}
.file {{ font-size: 10px; fill: #57606a }}
.room {{ fill: #eaf1f7; stroke: #9fb4c7 }}
.down, .up {{ fill: none; stroke-width: 1 }}
.down {{ stroke: {GREY}; stroke-opacity: 0.6; marker-end: url(#down) }}
.up {{ stroke: {RED}; stroke-opacity: 0.75; marker-end: url(#up) }}"""


@dataclass
class Box:
    """A room as it is drawn.

    Attributes:
        name: The room: a folder with a slash, or a module at the root.
        floor: Where it stands, 0 at the bottom.
        files: The modules in it, by the names that are written.
        left: Its left edge, in pixels.
        top: Its upper edge, in pixels.
    """

    name: str
    floor: int
    files: list[str]
    left: float = 0
    top: float = 0
    column: float = field(init=False)
    width: float = field(init=False)
    height: float = field(init=False)

    def __post_init__(self) -> None:
        """Find how large it is."""
        self.column = LETTER * max(map(len, self.files), default=0) + 12
        across = min(ceil(len(self.files) / MOST_LINES), int((WIDTH - 2 * MARGIN) / self.column))
        self.lines = ceil(len(self.files) / across) if across else 0
        self.width = max(TITLE * len(self.name) + 16, across * self.column + 8)
        self.height = 24 + self.lines * LINE + (6 if self.lines else 0)

    def drawn(self) -> Iterator[str]:
        """Yield its elements."""
        yield (
            f'<rect class="room" x="{self.left:.0f}" y="{self.top:.0f}" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" rx="3"/>'
        )
        yield _text("name", self.left + 8, self.top + 16, self.name)
        for number, name in enumerate(self.files):
            across, down = divmod(number, self.lines)
            yield _text("file", self.left + 8 + across * self.column, self.top + 34 + down * LINE, name)


def _text(kind: str, left: float, base: float, text: str) -> str:
    return f'<text class="{kind}" x="{left:.0f}" y="{base:.0f}">{escape(text)}</text>'


def draw(graph: Graph, floors: Floors) -> str:
    """Return the picture as SVG.

    Args:
        graph: What each module imports.
        floors: Where they stand.
    """
    boxes = {name: Box(name, floors.of(name), _files(graph, name)) for name in sorted(set(map(room, graph)))}
    height = _place(boxes, floors)
    up = _upward(graph, floors)
    down = _unimplied({name: others - up.get(name, set()) for name, others in rooms(graph).items()})
    elements = [*_arrows(boxes, down, "down"), *_arrows(boxes, up, "up")]
    for box in boxes.values():
        elements += box.drawn()
    words = (
        f"{len(graph)} modules in {len(boxes)} rooms on {len({box.floor for box in boxes.values()})} floors. "
        f"Arrows run to what is imported: {_count(down)} down, {_count(up)} up or round in circles (red)."
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}">',
            f"<style>\n{STYLE}\n</style>",
            f"<defs>{_head('down', GREY)}{_head('up', RED)}</defs>",
            f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
            *elements,
            _text("file", MARGIN, height - MARGIN, words),
            "</svg>\n",
        ]
    )


def _files(graph: Graph, name: str) -> list[str]:
    inside = [module.removeprefix(name).removesuffix(".py") for module in graph if module.startswith(name)]
    return sorted(each for each in inside if each and not each.endswith("__init__"))


def _place(boxes: Mapping[str, Box], floors: Floors) -> float:
    """Give each box its place, the top floor first, and return how high the picture is."""
    order = [entry for row in floors.rows for entry in row]
    top: float = MARGIN
    for floor in sorted({box.floor for box in boxes.values()}, reverse=True):
        here = [box for box in boxes.values() if box.floor == floor]
        here.sort(key=lambda box: (order.index(box.name) if box.name in order else len(order), box.name))
        for row in _rows(here):
            left = (WIDTH - sum(box.width for box in row) - GAP * (len(row) - 1)) / 2
            for box in row:
                box.left, box.top = left, top
                left += box.width + GAP
            top += max(box.height for box in row) + GAP
        top += STOREY - GAP
    return top


def _rows(boxes: list[Box]) -> Iterator[list[Box]]:
    """Yield the boxes of a floor in rows that fit into the picture."""
    row: list[Box] = []
    for box in boxes:
        if row and sum(each.width + GAP for each in row) + box.width > WIDTH - 2 * MARGIN:
            yield row
            row = []
        row.append(box)
    yield row


def _upward(graph: Graph, floors: Floors) -> dict[str, set[str]]:
    """Return the arrows that run up, and those between rooms of one floor that import each other."""
    found: dict[str, set[str]] = {}
    for low, high in floors.upward(graph):
        if room(low) != room(high):
            found.setdefault(room(low), set()).add(room(high))
    level = {
        name: {other for other in others if floors.of(other) == floors.of(name)}
        for name, others in rooms(graph).items()
    }
    for circle in circles(level):
        for name in circle:
            found.setdefault(name, set()).update(level[name] & set(circle))
    return found


def _unimplied(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Leave out the arrows to what is reached over others."""
    left = {name: set(others) for name, others in arrows.items()}
    for name in sorted(left):
        for other in sorted(left[name]):
            left[name].discard(other)
            if other not in reachable(left, name):
                left[name].add(other)
    return left


def _arrows(boxes: Mapping[str, Box], arrows: Mapping[str, set[str]], kind: str) -> Iterator[str]:
    """Yield the arrows, which begin and end side by side where there are several at one box."""
    pairs = [(name, other) for name in sorted(arrows) for other in sorted(arrows[name])]
    begins = {name: sorted((b for a, b in pairs if a == name), key=lambda b: boxes[b].left) for name in boxes}
    ends = {name: sorted((a for a, b in pairs if b == name), key=lambda a: boxes[a].left) for name in boxes}
    for name, other in pairs:
        start, end = boxes[name], boxes[other]
        x1 = start.left + start.width * (begins[name].index(other) + 1) / (len(begins[name]) + 1)
        x2 = end.left + end.width * (ends[other].index(name) + 1) / (len(ends[other]) + 1)
        is_below = end.top > start.top
        y1, y2 = (start.top + start.height, end.top) if is_below else (start.top, end.top + end.height)
        if start.top == end.top:
            y1 = y2 = start.top
        bend = max(abs(y2 - y1) / 2, STOREY / 2) * (1 if is_below else -1)
        into = bend if start.top != end.top else -bend
        curve = f"{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - into:.0f} {x2:.0f} {y2:.0f}"
        yield f'<path class="{kind}" d="M{x1:.0f} {y1:.0f}C{curve}"/>'


def _count(arrows: Mapping[str, set[str]]) -> int:
    return sum(map(len, arrows.values()))


def _head(kind: str, colour: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" '
        f'orient="auto"><path d="M0 0L6 3L0 6z" fill="{colour}"/></marker>'
    )


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--out", type=Path, default=DRAWN)
    options = parser.parse_args()
    package = options.checkout / PACKAGE.name
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(draw(imports(read(package), package.name), Floors.declared()), "utf-8")


if __name__ == "__main__":
    main()
