"""Real replicas, workers and a Redis in trouble, in small; `make chaos` does ten times as much of all of it.

What is judged are the ledgers of the clients and of the tools. A run that fails says its seed, and leaves its ledgers
and the logs of its processes in the folder that it names.
"""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("looks at /proc", allow_module_level=True)
pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')

from tests.helpers.cluster import scenarios

SEED = int(os.environ.get("MCPKIT_SEED", "1"))

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


def test_no_task_is_lost_or_done_twice_whatever_is_killed() -> None:
    done = asyncio.run(scenarios.kills(SEED, tasks=200, kills=20))
    assert done["tasks"] == 200
    assert done["kills"] == 20


def test_what_is_acknowledged_is_there_whatever_is_killed_then() -> None:
    asyncio.run(scenarios.acknowledged(SEED))


def test_an_acknowledgement_before_the_write_is_found_out() -> None:
    with pytest.raises(scenarios.Failed, match="nobody knows"):
        asyncio.run(scenarios.acknowledged(SEED, "hasty"))


def test_what_a_worker_writes_that_was_stopped_past_its_lease_is_refused() -> None:
    done = asyncio.run(scenarios.stopped(SEED, rounds=1))
    assert done["held by the worker that was stopped"] > 0


def test_without_the_fence_it_is_taken_and_that_is_found_out() -> None:
    with pytest.raises(scenarios.Failed, match="written late"):
        asyncio.run(scenarios.stopped(SEED, rounds=1, control="unfenced"))


def test_all_is_well_again_after_any_trouble_of_redis_and_what_was_missed_is_told() -> None:
    asyncio.run(scenarios.redis_in_trouble(SEED, rounds=1, tasks=5, listeners=12))


def test_a_bus_that_does_not_know_what_was_missed_is_found_out() -> None:
    with pytest.raises(scenarios.Failed, match="unheard") as caught:
        asyncio.run(scenarios.changes_by_pubsub(SEED))
    assert "before anything was cut" not in str(caught.value)


def test_any_request_is_answered_by_any_replica() -> None:
    done = asyncio.run(scenarios.elsewhere(SEED, times=500))
    assert set(done.values()) == {500}


def test_a_rolling_upgrade_is_no_error_for_anybody() -> None:
    done = asyncio.run(scenarios.rolling(SEED))
    assert all(done[kind] for kind in ("calls", "calls in sessions", "tasks"))


def test_one_of_many_racers_wins_and_limits_hold_across_replicas() -> None:
    asyncio.run(scenarios.racing(SEED, racers=500))


def test_clocks_may_differ_and_redis_may_be_far_away() -> None:
    asyncio.run(scenarios.clocks_apart(SEED, times=10))
