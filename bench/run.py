"""Measures mcpkit beside its peers: `python bench/run.py`, or `make bench`. See README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import environment
from contenders import contenders
from figures import every_series, run
from probes import own_cost
from report import plain, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", action="append", help="a CPython, as a version (3.13) or a path; may be repeated"
    )
    parser.add_argument(
        "--rounds", type=int, help="at most so many samples of each figure (default: 5 to 15)"
    )
    parser.add_argument(
        "--only", action="append", help="only series with this in their name; may be repeated"
    )
    parser.add_argument(
        "--peer", action="append", help="only these peers beside mcpkit and mcp; may be repeated"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    options = parser.parse_args()
    node = environment.node_with_peer() if options.peer is None or "typescript" in options.peer else None
    reports = []
    for base in options.python or [sys.executable]:
        path = environment.python_with_peers(environment.interpreter(base))
        reports.append(measure(path, node, options))
    if options.json is not None:
        options.json.write_text(json.dumps(reports, indent=1) + "\n")


def measure(python: Path, node: str | None, options: argparse.Namespace) -> dict[str, Any]:
    """Run every series that was asked for with one interpreter, print the table and return the samples."""
    everybody = contenders(python, node)
    if options.peer is not None:
        everybody = [each for each in everybody if each.name in {"mcpkit", "mcp", *options.peer}]
    versions = environment.versions(python, node)
    print(f"\nCPython {python.parent.parent.name} on {platform.platform()}, {os.cpu_count()} cores: ", end="")
    print(", ".join(f"{name} {version}" for name, version in versions.items()), end="\n\n", flush=True)
    outcomes = []
    for series in every_series():
        if options.only is None or any(part in series.title for part in options.only):
            print(f"measuring {series.title} ...", file=sys.stderr)
            outcomes += run(series, everybody, options.rounds)
    print(table(outcomes, [each.name for each in everybody]))
    own = own_cost(options.rounds or 9)
    print(
        f"\nOf a stdio call the client and the two pipes take {own['one core'] * 1e6:.1f} µs sequentially "
        f"({own['two cores'] * 1e6:.1f} µs on a core each) and {own['in flight'] * 1e6:.1f} µs "
        "with 64 in flight: the same client with `cat` as the server.\n"
    )
    return {"versions": versions, "own cost": own, "figures": plain(outcomes)}


if __name__ == "__main__":
    main()
