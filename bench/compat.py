"""Measures a server for `mcp` 1.x under `mcpkit.compat`: `make bench-compat`.

One file, `peers/compat_server.py`, one environment, two ways: `python FILE` and `python -m mcpkit.compat FILE`. The two
take turns, in an order that turns around, and ratios are taken pair by pair. Each figure is there twice, by the clock
and by what the server takes of the processor: on an idle machine they agree, on a busy one the second counts.
Aims: at most 0.4 of the start, at least 5 times the calls.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from client import INITIALIZE, INITIALIZED, Child, requests, results

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))
import workload  # noqa: E402

FILE = str(HERE / "peers" / "compat_server.py")
REVISION = "2025-11-25"
WINDOW = 64
SECONDS = 0.3  # that a sample of calls should take
DEFAULT_TIMEOUT = 60.0
START, TIMES = 0.4, 5.0  # the aims

ADD = workload.ARGUMENTS
CALLS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "async tool": ("add", ADD),
    "sync tool": ("add_sync", ADD),
    "text with an output schema": ("total", ADD),
    "a model, taken and returned": ("report", {"place": {"name": "Paris", "latitude": 48.9}}),
    "with Context": ("echo", {"text": "hello"}),
}


def main() -> int:
    """Measure, print the table, and return 0 whatever the figures are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="pairs for each figure")
    parser.add_argument("--only", choices=("start", "calls"), help="one half of the figures")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with `mcp` 1.x and mcpkit")
    options = parser.parse_args()
    ways = {"mcp": [options.python, FILE], "mcpkit": [options.python, "-m", "mcpkit.compat", FILE]}
    starts: dict[str, list[tuple[float, float]]] = {}
    for turn in range(options.rounds + 1 if options.only != "calls" else 0):
        sample = {name: start(ways[name]) for name in in_turn(turn)}
        for title in sample["mcp"] if turn else ():  # the first compiles the modules
            starts.setdefault(title, []).append((sample["mcp"][title], sample["mcpkit"][title]))
    print("| figure | unit | mcp | mcpkit.compat | ratio (spread) | aim | reached |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for title, pairs in starts.items():
        is_memory = "memory" in title
        print_row(
            title,
            "MB" if is_memory else "ms",
            pairs,
            1 / 1024 if is_memory else 1e3,
            None if is_memory else START,
        )
    for title, (tool, arguments) in CALLS.items() if options.only != "start" else ():
        calls(title, tool, arguments, ways, options.rounds)
    return 0


def in_turn(turn: int) -> tuple[str, str]:
    """Return the two in an order that turns around."""
    return ("mcp", "mcpkit") if turn % 2 else ("mcpkit", "mcp")


def start(command: list[str]) -> dict[str, float]:
    """Start a server; return seconds to both answers, and KiB of resident memory."""
    with Child(command) as child, child.deadline(DEFAULT_TIMEOUT):
        child.ask(INITIALIZE)
        first, first_of_processor = time.perf_counter() - child.started, processor(child)
        child.notify(INITIALIZED)
        listed = results([child.ask(requests("tools/list", {}, 1, REVISION)[0])], 1)[0]
        second, second_of_processor = time.perf_counter() - child.started, processor(child)
        assert len(listed["tools"]) == len(CALLS), listed
        return {
            "start to the answer of initialize": first,
            "start to the answer of initialize, processor": first_of_processor,
            "start to the answer of tools/list": second,
            "start to the answer of tools/list, processor": second_of_processor,
            "resident memory after tools/list": float(child.memory()[0]),
        }


def processor(child: Child) -> float:
    """Return the seconds that a server has had a processor for, all its threads together."""
    tasks = Path(f"/proc/{child.process.pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9


@contextmanager
def serving(command: list[str]) -> Iterator[Child]:
    with Child(command) as child:
        with child.deadline(DEFAULT_TIMEOUT):
            child.ask(INITIALIZE)
        child.notify(INITIALIZED)
        yield child


def calls(
    title: str, tool: str, arguments: dict[str, Any], ways: Mapping[str, list[str]], rounds: int
) -> None:
    """Measure calls one after the other and 64 in flight, in pairs, and print both rows."""
    ways_taken = ("one by one", "one by one, processor", "64 in flight", "64 in flight, processor")
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways_taken}
    with serving(ways["mcp"]) as theirs, serving(ways["mcpkit"]) as ours:
        children = {"mcp": theirs, "mcpkit": ours}
        answers: dict[str, str] = {}
        counts: dict[str, int] = {}
        for name, child in children.items():
            with child.deadline(DEFAULT_TIMEOUT):
                few = requests("tools/call", {"name": tool, "arguments": arguments}, 2 * WINDOW, REVISION)
                child.concurrent(few, WINDOW)
                seconds, received = child.concurrent(few, WINDOW)
            answers[name] = json.dumps(results(received, len(received)), sort_keys=True)
            counts[name] = max(2 * WINDOW, int(SECONDS / (seconds / len(few))))
        assert answers["mcp"] == answers["mcpkit"], answers
        for turn in range(rounds):
            sample: dict[str, list[float]] = {}
            for name in in_turn(turn):
                child, count = children[name], counts[name]
                wanted = requests("tools/call", {"name": tool, "arguments": arguments}, count, REVISION)
                few = wanted[: max(100, count // 2)]
                with child.deadline(DEFAULT_TIMEOUT):
                    with child.pinned(one_core=True):
                        begun = processor(child)
                        seconds, received = child.sequential(few)
                        spent = processor(child) - begun
                    with child.pinned(one_core=False):
                        begun = processor(child)
                        flying, all_received = child.concurrent(wanted, WINDOW)
                        flown = processor(child) - begun
                results(received, len(few))
                results(all_received, count)
                sample[name] = [seconds / len(few), spent / len(few), flying / count, flown / count]
            for number, pairs in enumerate(taken.values()):
                pairs.append((sample["mcp"][number], sample["mcpkit"][number]))
    for way, pairs in taken.items():
        print_row(f"call, {title}, {way}", "µs", pairs, 1e6, TIMES)


def print_row(
    title: str, unit: str, pairs: list[tuple[float, float]], scale: float, aim: float | None
) -> None:
    """Print a row: medians, and the ratio pair by pair."""
    is_rate = aim == TIMES
    ratios = sorted(theirs / ours if is_rate else ours / theirs for theirs, ours in pairs)
    theirs, ours = (median(each) * scale for each in zip(*pairs, strict=True))
    middle = median(ratios)
    sign, digits = ("x", 1) if is_rate else ("", 2)
    spread = f"{sign}{middle:.{digits}f} ({ratios[0]:.{digits}f} to {ratios[-1]:.{digits}f})"
    wanted = "" if aim is None else f"≥ x{aim:g}" if is_rate else f"≤ {aim:g}"
    is_reached = "" if aim is None else ("yes" if (middle >= aim if is_rate else middle <= aim) else "**no**")
    print(
        f"| {title} | {unit} | {theirs:.0f} | {ours:.0f} | {spread} | {wanted} | {is_reached} |", flush=True
    )


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody's start is to compile what is installed
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), str(HERE / "peers")])
    sys.exit(main())
