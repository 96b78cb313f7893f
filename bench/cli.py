"""Measures commands of the command line beside those of fastmcp: `make bench-cli`.

Each is a process that starts, does its work and ends, and with it the server that it starts; all of that is counted.
The two of a row take turns, in an order that turns around, and ratios are taken pair by pair. Each figure is there
twice, by the clock and by what all processes together take of the processor: on an idle machine they agree, on a
busy one the second counts. Aims: a call at most 0.25 of `fastmcp call`, `--help` at most 1.6 of `import mcpkit`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
FASTMCP = HERE.parent / ".servers" / "fastmcp" / "bin"
OURS, THEIRS = str(HERE / "peers" / "cli_mcpkit.py"), str(HERE / "peers" / "cli_fastmcp.py")
DEFAULT_TIMEOUT = 120.0

MCPKIT = [sys.executable, "-m", "mcpkit"]
ADD = ["add", "a=40", "b=2"]
CALL, HELP = 0.25, 1.6  # the aims

ROWS: Mapping[str, tuple[list[str], list[str], str, float | None]] = {
    "`mcpkit call` to `fastmcp call`, each of a file of its own": (
        [*MCPKIT, "call", OURS, *ADD], [str(FASTMCP / "fastmcp"), "call", THEIRS, *ADD], "42", CALL,
    ),
    "the same, both of a server of fastmcp": (
        [*MCPKIT, "call", f"{FASTMCP / 'python'} {THEIRS}", *ADD],
        [str(FASTMCP / "fastmcp"), "call", THEIRS, *ADD], "42", None,
    ),
    "`mcpkit --help` to `import mcpkit`": (
        [*MCPKIT, "--help"], [sys.executable, "-c", "import mcpkit"], "", HELP,
    ),
}  # fmt: skip


def main() -> int:
    """Measure, print the table, and return 0 whatever the figures are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="pairs for each figure")
    rounds = parser.parse_args().rounds
    if not FASTMCP.exists():
        raise SystemExit("there is no fastmcp: make .servers/fastmcp/.installed")
    os.environ["PATH"] = f"{FASTMCP}{os.pathsep}{os.environ['PATH']}"  # its `call` looks for its `run` there
    print("| figure | by | ours, ms | theirs, ms | ratio (spread) | aim | reached |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for title, (ours, theirs, answer, aim) in ROWS.items():
        pairs: list[tuple[tuple[float, float], tuple[float, float]]] = []
        for turn in range(rounds + 1):
            first, second = (ours, theirs) if turn % 2 else (theirs, ours)
            taken = {id(command): run(command, answer) for command in (first, second)}
            if turn:  # the first compiles the modules
                pairs.append((taken[id(ours)], taken[id(theirs)]))
        for place, way in enumerate(("clock", "processor")):
            print_row(title, way, [(our[place], their[place]) for our, their in pairs], aim)
    return 0


def run(command: list[str], answer: str) -> tuple[float, float]:
    """Run a command; return the seconds that it takes by the clock, and of the processor, with all that it starts."""
    before, begin = spent(), time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEFAULT_TIMEOUT, check=False)
    seconds = time.perf_counter() - begin
    assert ended.returncode == 0, ended.stderr
    assert answer in ended.stdout, ended.stdout
    return seconds, spent() - before


def spent() -> float:
    """Return the seconds of the processor of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def print_row(title: str, way: str, pairs: list[tuple[float, float]], aim: float | None) -> None:
    """Print a row."""
    ours, theirs = (median(each) * 1e3 for each in zip(*pairs, strict=True))
    ratios = sorted(our / their for our, their in pairs)
    ratio = median(ratios)
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    wanted = " | " if aim is None else f"{aim} | {'yes' if ratio <= aim else 'NO'}"
    print(f"| {title} | {way} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} ({spread}) | {wanted} |")


if __name__ == "__main__":
    raise SystemExit(main())
