"""Replicas and workers that are killed, and a Redis in trouble, in full: each scenario in turn, in half an hour.

python tests/chaos/run.py [seed] [scenario ...]

Seed 1 and all scenarios when none are given. What fails says so and leaves its ledgers in the folder that it names, and
the next one is tried all the same.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent)]

from tests.helpers.cluster import scenarios  # noqa: E402 - it is found there

RECOVERY = 10.0
"""Seconds in which all must be well again after a trouble of Redis."""

Scenario = Callable[[int], Coroutine[Any, Any, Any]]

SCENARIOS: dict[str, Scenario] = {
    "kills": lambda seed: scenarios.kills(seed, tasks=2000, kills=200),
    "acknowledged": scenarios.acknowledged,
    "stopped": lambda seed: scenarios.stopped(seed, rounds=10),
    "redis": lambda seed: scenarios.redis_in_trouble(seed, rounds=5, tasks=20, listeners=48),
    "elsewhere": lambda seed: scenarios.elsewhere(seed, times=5000),
    "rolling": scenarios.rolling,
    "racing": lambda seed: scenarios.racing(seed, racers=1000),
    "clocks": lambda seed: scenarios.clocks_apart(seed, times=40),
}

CONTROLS: dict[str, Scenario] = {
    "acknowledged before the write": lambda seed: scenarios.acknowledged(seed, "hasty"),
    "stopped, without the fence": lambda seed: scenarios.stopped(seed, 1, "unfenced"),
    "redis, with Pub/Sub in the log's place": scenarios.changes_by_pubsub,
}
"""What must fail."""


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left running
    seed = int(arguments[0]) if arguments else 1
    wanted = arguments[1:]
    failed = []
    for name, scenario in (SCENARIOS | CONTROLS).items():
        if wanted and name not in wanted:
            continue
        begin = time.monotonic()
        try:
            done = asyncio.run(scenario(seed))
            is_well = name not in CONTROLS and (name != "redis" or max(done.values()) <= RECOVERY)
            told = f"{done}" if name not in CONTROLS else "nothing was found, and it must be"
        except scenarios.Failed as error:
            is_well, told = name in CONTROLS, str(error)
        except Exception as error:
            is_well, told = False, repr(error)
        print(
            f"{'well' if is_well else 'FAILED'}: {name}, {time.monotonic() - begin:.0f} s: {told}", flush=True
        )
        failed += [] if is_well else [name]
    print(f"failed: {', '.join(failed)}" if failed else f"all is well, by seed {seed}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
