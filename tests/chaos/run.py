"""Failures at scale: clients, servers and a Redis that fail, each scenario in turn; it prints each result.

python tests/chaos/run.py cluster [seed] [scenario ...]     half an hour, seed 1 and all scenarios by default
python tests/chaos/run.py clients [rounds] [first seed]     10,000 rounds from seed 0 by default
"""

import asyncio
import logging
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2])]

from tests.chaos import client_rounds, scenarios  # noqa: E402 - found by the path above

SCENARIOS: dict[str, Callable[[int], Coroutine[Any, Any, Any]]] = {
    "kills": lambda seed: scenarios.kills(seed, tasks=2000, kills=200),
    "paused": lambda seed: scenarios.paused_worker(seed, rounds=10),
    "redis": lambda seed: scenarios.redis_failures(seed, rounds=5, tasks=20, subscribers=48),
    "clocks": lambda seed: scenarios.different_clocks(seed, tasks=200),
}
MAX_RECOVERY = 10.0
"""Seconds within which all must work again after a failure of the Redis."""
BLOCK = 50


def run_cluster(arguments: list[str]) -> int:
    """Run scenarios, and return the number of those that failed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that child processes are ended
    seed, names = int(arguments[0]) if arguments else 1, arguments[1:] or [*SCENARIOS]
    failed = 0
    for name in names:
        begin = time.monotonic()
        try:
            result = asyncio.run(SCENARIOS[name](seed))
            is_ok = name != "redis" or max(result.values()) <= MAX_RECOVERY
        except Exception as error:
            is_ok, result = False, error
        failed += not is_ok
        print(
            f"{'ok' if is_ok else 'FAILED'}: {name}, {time.monotonic() - begin:.0f} s: {result}", flush=True
        )
    return failed


def run_clients(arguments: list[str]) -> int:
    """Run rounds; a failed round names its seed."""
    logging.disable(logging.CRITICAL)
    rounds, first = (*map(int, arguments), *(10_000, 0)[len(arguments) :])
    client_rounds.run_block([0], checks_leaks=False)  # imports and caches of the first use
    begin, figures = time.monotonic(), Counter[str]()
    for seed in range(first, first + rounds, BLOCK):
        figures += client_rounds.run_block(range(seed, min(seed + BLOCK, first + rounds)))
    print(f"{dict(figures)} in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit({"cluster": run_cluster, "clients": run_clients}[sys.argv[1]](sys.argv[2:]))
