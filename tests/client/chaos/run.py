"""Rounds without end, nearly: clients ask servers that fail as chance has it, and what holds is held against that.

python tests/client/chaos/run.py [rounds] [rounds with processes] [first seed]

10,000 and 300 when none are given, from seed 0 on. What fails names its seed, which plays the same round again: as far
as processes that are killed let it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS.parent)]

from tests.helpers.chaos.process_rounds import play_process_block  # noqa: E402
from tests.helpers.chaos.rounds import PIPE, WAYS, play_block  # noqa: E402 - it is found there

BLOCK = 50
PROCESS_BLOCK = 25


def report(title: str, figures: Counter[str], seconds: float) -> None:
    """Print what has happened."""
    print(f"{title}: {figures.pop('rounds', 0)} rounds in {seconds:.0f} s")
    for name, number in sorted(figures.items(), key=lambda item: -item[1]):
        print(f"  {number:8,} {name}")
    sys.stdout.flush()


def scripted(rounds: int, first: int) -> None:
    """Play rounds against a scripted server: two of five over a pipe, the others over HTTP."""
    for way in WAYS:
        count = rounds * 2 // 5 if way == PIPE else rounds // 5
        play_block(way, [0])  # imports what is imported once
        begin, figures = time.monotonic(), Counter[str]()
        for seed in range(first, first + count, BLOCK):
            figures += play_block(way, range(seed, min(seed + BLOCK, first + count)))
        report(f"scripted, {way}", figures, time.monotonic() - begin)


def with_processes(rounds: int, first: int) -> None:
    """Play rounds with real servers, as many over each way."""
    for way in WAYS:
        begin, figures = time.monotonic(), Counter[str]()
        for seed in range(first, first + rounds // len(WAYS), PROCESS_BLOCK):
            figures += play_process_block(
                way, range(seed, min(seed + PROCESS_BLOCK, first + rounds // len(WAYS)))
            )
        report(f"processes, {way}", figures, time.monotonic() - begin)


def main(arguments: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    rounds = int(arguments[0]) if arguments else 10_000
    process_rounds = int(arguments[1]) if len(arguments) > 1 else 300
    first = int(arguments[2]) if len(arguments) > 2 else 0
    scripted(rounds, first)
    with_processes(process_rounds, first)
    print("each call has ended, nothing was done twice that must not be, and nothing is left over")


if __name__ == "__main__":
    main(sys.argv[1:])
