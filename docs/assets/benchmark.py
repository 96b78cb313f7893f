"""Draw `benchmark.svg` and `performance.svg`: bars for some rows of the result tables in bench/README.md.

.venv/bin/python docs/assets/benchmark.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
DRAWN: Final = Path(__file__).with_name("benchmark.svg")

PANELS: Final = {
    "process start to `initialize` answered": "Process start to initialize",
    "resident memory after `tools/list`": "Memory after tools/list",
    "sequential calls over stdio, a core each": "One call over stdio",
    "64 calls in flight over stdio": "One of 64 concurrent calls over stdio",
    "registering 500 documented tools": "Registering 500 tools",
    "processor time of the server for each call, 2026-07-28": "One call over HTTP, processor time",
}
"""Titles of the panels of `benchmark.svg`, by row of the tables. Less is better in each."""

MORE: Final = {
    "`tools/list` of 500 tools over stdio, one core": "Listing 500 tools over stdio",
    "calls of the in-memory client, 2026-07-28": "One call of the in-memory client",
    "sequential calls of a function that is not `async`, one core": "One call of a plain function over stdio",
    "1,000 open streams: time until the last gets a change notification": "Notifying 1,000 open streams",
    "1,000 open streams: memory of the server for each": "Memory of one open stream",
    "processor time of the server for each call, 2026-07-28": "One call over HTTP, processor time",
}
"""Titles of the panels of `performance.svg`."""

NAMES: Final = {
    "chuk-mcp-server 0.26": "chuk 0.26",
    "TypeScript server 2.4": "TypeScript SDK 2.4",
    "bare": "bare ASGI app",
}
"""Shorter or clearer names for columns of the tables."""

WIDTH: Final = 880
MARGIN: Final = 16
PANEL: Final = 412
GAP: Final = 24
LABELS: Final = 124
VALUES: Final = 70
BAR: Final = 20
HEAD: Final = 34
FOOT: Final = 14

STYLE: Final = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 14px; font-weight: 600 }
.label, .value { font-size: 12px }
.note { font-size: 12px; fill: #57606a }
.other { fill: #b6bfc9 }
.own { fill: #2563a8 }"""


class Bar(NamedTuple):
    """A value of one library."""

    library: str
    value: float
    unit: str


def rows() -> dict[str, list[Bar]]:
    """Read the rows of all tables in bench/README.md whose first column is empty in the header."""
    found: dict[str, list[Bar]] = {}
    libraries: list[str] = []
    for line in (ROOT / "bench" / "README.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| |"):
            libraries = cells[1:]
        elif line.startswith("| ") and libraries:
            found[cells[0]] = [bar for bar in map(_bar, libraries, cells[1:]) if bar is not None]
        elif not line.startswith("|"):
            libraries = []
    return found


def _bar(library: str, cell: str) -> Bar | None:
    number = re.match(r"\**([\d.,]+) (ms|µs|MB|KB)\b", cell)
    return number and Bar(library, float(number[1].replace(",", "")), number[2])


def svg(panels: Mapping[str, str] = PANELS) -> str:
    """Return a picture."""
    table = rows()
    parts: list[str] = []
    top, height = 16.0, 0.0
    for number, (row, title) in enumerate(panels.items()):
        bars = table[row]
        left = MARGIN + number % 2 * (PANEL + GAP)
        if number % 2 == 0:
            top, height = top + height, 0.0
        parts += _panel(title, bars, left, top)
        height = max(height, HEAD + BAR * len(bars) + FOOT)
    end = top + height + 14
    note = (
        "Less is better. Two cores, CPython 3.13; HTTP: CPython 3.11. Method and all figures: bench/README.md"
    )
    parts.append(f'<text class="note" x="{MARGIN}" y="{end:g}">{note}</text>')
    frame = f'<rect width="{WIDTH}" height="{end + 16:g}" rx="8" fill="#ffffff" stroke="#d0d7de" />'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {end + 16:g}" role="img">',
            f"<title>mcpkit compared with other servers: {escape('; '.join(panels.values()))}</title>",
            f"<style>\n{STYLE}\n</style>",
            frame,
            *parts,
            "</svg>\n",
        ]
    )


def _panel(title: str, bars: list[Bar], left: float, top: float) -> list[str]:
    longest = max(bar.value for bar in bars)
    room = PANEL - LABELS - VALUES
    parts = [f'<text class="title" x="{left}" y="{top + 18:g}">{escape(title)}</text>']
    for number, bar in enumerate(bars):
        y = top + HEAD + BAR * number
        length = max(2.0, room * bar.value / longest)
        kind = "own" if bar.library == "mcpkit" else "other"
        name = NAMES.get(bar.library, bar.library)
        value = f"{bar.value:g} {bar.unit}"
        parts += [
            f'<text class="label" x="{left + LABELS - 8}" y="{y + 10:g}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{left + LABELS}" y="{y:g}" width="{length:.1f}" height="13" rx="2" />',
            f'<text class="value" x="{left + LABELS + length + 6:.1f}" y="{y + 10:g}">{value}</text>',
        ]
    return parts


if __name__ == "__main__":
    DRAWN.write_text(svg(), "utf-8")
    DRAWN.with_name("performance.svg").write_text(svg(MORE), "utf-8")
