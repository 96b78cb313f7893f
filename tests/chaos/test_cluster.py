"""Each scenario of `make chaos` once and small; a failure names its seed and the folder of its ledgers."""

import asyncio
import os
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)
pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')

from tests.chaos import scenarios

SEED = int(os.environ.get("MCPKIT_SEED", "1"))
pytestmark = pytest.mark.long


SCENARIOS = {
    "kills": lambda: scenarios.kills(SEED, tasks=15, kills=2),
    "paused worker": lambda: scenarios.paused_worker(SEED, rounds=1),
    "redis killed": lambda: scenarios.redis_failures(SEED, 1, tasks=2, subscribers=6, names=["kill"]),
    "redis replies dropped": lambda: scenarios.redis_failures(SEED, 1, 2, 6, names=["drop_replies"]),
    "different clocks": lambda: scenarios.different_clocks(SEED, tasks=5),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_has_no_faults(name: str) -> None:
    assert asyncio.run(SCENARIOS[name]())
