"""Measures mcpkit beside its peers over HTTP: `python bench/run_http.py`, or `make bench-http`. See README.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import environment
from contenders import Contender, web_contenders
from endurance import KILLED, SESSIONS, abandoned, endurance_table, killed, plain_rows
from figures import run
from load import load_series
from report import plain, table
from streams import stream_series
from web_client import take_a_core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="a CPython, as a version (3.13) or a path")
    parser.add_argument("--rounds", type=int, help="at most so many samples of each figure (default: 3 to 7)")
    parser.add_argument("--only", action="append", help="only what has this in its name; may be repeated")
    parser.add_argument("--peer", action="append", help="only these beside mcpkit; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="how many are abandoned (%(default)s)")
    parser.add_argument("--clients", type=int, default=KILLED, help="how many are killed (%(default)s)")
    options = parser.parse_args()
    python = environment.python_with_peers(environment.interpreter(options.python))
    take_a_core()
    everybody = web_contenders(python)
    if options.peer is not None:
        everybody = [each for each in everybody if each.name in {"mcpkit", *options.peer}]
    outcomes = []
    for series in [*load_series(), stream_series()]:
        if is_selected(series.title, options):
            print(f"measuring {series.title} ...", file=sys.stderr)
            outcomes += run(series, everybody, options.rounds)
    if outcomes:
        print(table(outcomes, [each.name for each in everybody]))
    endured = endurance(everybody, options)
    if options.json is not None:
        options.json.write_text(
            json.dumps({"figures": plain(outcomes), "endurance": endured}, indent=1) + "\n"
        )


def endurance(everybody: Sequence[Contender], options: argparse.Namespace) -> dict[str, Any]:
    """Print what sessions and clients leave behind, of the libraries that serve both eras; return the same as data."""
    measures = {
        "abandoned": lambda each: abandoned(each, traced=False, sessions=options.sessions),
        "abandoned, traced": lambda each: abandoned(each, traced=True, sessions=options.sessions),
        "killed": lambda each: killed(each, clients=options.clients),
    }
    endured: dict[str, Any] = {}
    for name, measure in measures.items():
        for each in everybody:
            if each.name in {"mcpkit", "mcp"} and is_selected(name, options):
                print(f"measuring {name}, {each.name} ...", file=sys.stderr)
                try:
                    rows = measure(each)
                except Exception as error:
                    print(f"{name}: {each.name} failed: {error}", file=sys.stderr)
                    continue
                print("\n" + endurance_table(f"{name}, {each.name}", rows), flush=True)
                endured[f"{name}, {each.name}"] = plain_rows(rows)
    return endured


def is_selected(title: str, options: argparse.Namespace) -> bool:
    return options.only is None or any(part in title for part in options.only)


if __name__ == "__main__":
    main()
