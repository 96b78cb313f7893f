"""Measures mcpkit beside its peers over HTTP: `python bench/run_http.py`, or `make bench-http`. See README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import environment
from contenders import web_contenders
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
    options = parser.parse_args()
    python = environment.python_with_peers(environment.interpreter(options.python))
    take_a_core()
    everybody = web_contenders(python)
    if options.peer is not None:
        everybody = [each for each in everybody if each.name in {"mcpkit", *options.peer}]
    outcomes = []
    for series in [*load_series(), stream_series()]:
        if options.only is None or any(part in series.title for part in options.only):
            print(f"measuring {series.title} ...", file=sys.stderr)
            outcomes += run(series, everybody, options.rounds)
    print(table(outcomes, [each.name for each in everybody]))


if __name__ == "__main__":
    main()
