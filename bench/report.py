"""The outcome as a table to read, and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from figures import Figure, Outcome

SCALES = {"µs": 1e6, "ms": 1e3, "MB": 1 / 1024, "KB": 1e-3, "frames": 1, "tasks": 1, "objects": 1}


def shown(value: float | None, figure: Figure) -> str:
    if value is None:
        return "-"
    scaled = 1 / value if figure.unit == "calls/s" else value * SCALES[figure.unit]
    return f"{scaled:.0f}" if scaled >= 100 else f"{scaled:.3g}"


def table(outcomes: Sequence[Outcome], names: Sequence[str]) -> str:
    """Return the markdown table: medians, the ratio pair by pair with its spread, target, verdict."""
    others = [name for name in names if name not in {"mcpkit", "mcp"}]
    head = ["figure", "unit", "mcpkit", "mcp", "ratio (spread)", "target", "reached", *others, "ahead of us"]
    rows = [head, ["---"] * len(head)]
    for outcome in outcomes:
        figure = outcome.figure
        cells = [figure.title, figure.unit]
        cells += [
            "failed" if name in outcome.failures else shown(outcome.typical(name), figure)
            for name in ("mcpkit", "mcp")
        ]
        cells += [
            _ratio(outcome),
            _target(figure),
            {True: "yes", False: "**no**", None: ""}[outcome.reached()],
        ]
        cells += [
            "failed" if name in outcome.failures else shown(outcome.typical(name), figure) for name in others
        ]
        cells.append("-" if outcome.typical("mcpkit") is None else ", ".join(outcome.ahead()) or "nobody")
        rows.append(cells)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _ratio(outcome: Outcome) -> str:
    ratios = outcome.ratios()
    if not ratios:
        return "-"
    digits, sign = (1, "x") if outcome.figure.kind == "times" else (2, "")
    return f"{sign}{median(ratios):.{digits}f} ({min(ratios):.{digits}f} to {max(ratios):.{digits}f})"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"≥ x{figure.target:g}" if figure.kind == "times" else f"≤ {figure.target:g}"


def plain(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one JSON-ready object for each figure; samples are seconds, KiB (unit MB) or bytes (unit KB)."""
    return [
        {
            "figure": outcome.figure.title,
            "kind": outcome.figure.kind,
            "target": outcome.figure.target,
            "reached": outcome.reached(),
            "ratios": outcome.ratios(),
            "samples": outcome.samples,
            "failures": outcome.failures,
        }
        for outcome in outcomes
    ]
