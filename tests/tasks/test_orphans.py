"""What nobody takes is given up, and nothing that somebody may still take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.tasks.orphans import Orphans
from tests.helpers.clock import Clock
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.hands import LEASE, Hands, add, look, runner_of
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

GONE = "s/task/gone"


@pytest.fixture
def clock() -> Clock:
    return Clock(2_000_000.0)


@pytest.fixture(params=ENGINES)
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Memory | Sqlite]:
    """Each engine, by a clock that the test moves."""
    made = make_engine(request.param, tmp_path, clock)
    yield made
    close(made)


async def test_jobs_of_queues_that_nobody_knows_are_given_up(queue: Memory | Sqlite, clock: Clock) -> None:
    hands = Hands(queue, patience=100)
    orphans = Orphans(queue, hands, LEASE, clock)
    await add(queue, *(f"gone {number}" for number in range(40)), line=GONE)
    await add(queue, "known")
    await add(queue, "of another", line="s2/task/gone")
    await orphans.look()
    clock.now += 99
    await orphans.look()
    assert hands.given_up == []
    clock.now += 1
    await add(queue, "later", line=GONE)
    await orphans.look()
    assert hands.given_up == [f"gone {number}" for number in range(40)]
    assert (await look(queue, "gone 0")).value == b"done"
    clock.now += 100
    await orphans.look()
    assert "later" not in hands.given_up  # whose queue has been seen to be still since now
    clock.now += 100
    await orphans.look()
    assert hands.given_up[40:] == ["later"]


async def test_what_was_there_before_is_seen_for_as_long(queue: Memory | Sqlite, clock: Clock) -> None:
    await add(queue, "gone", line=GONE)
    clock.now += 1000
    hands = Hands(queue, patience=100)
    orphans = Orphans(queue, hands, LEASE, clock)
    await orphans.look()
    assert hands.given_up == []
    clock.now += 100
    await orphans.look()
    assert hands.given_up == ["gone"]


async def test_a_queue_that_others_work_on_is_left_to_them(queue: Memory | Sqlite, clock: Clock) -> None:
    hands = Hands(queue, patience=100)
    orphans = Orphans(queue, hands, LEASE, clock)
    for number in range(10):
        await add(queue, f"job {number}", line=GONE)
        clock.now += 10
    clock.now += 1000
    for _ in range(5):
        await orphans.look()
        clock.now += 60
        assert len((await queue.take([GONE], most=1, lease=LEASE)).jobs) == 1
    await orphans.look()
    assert hands.given_up == []
    clock.now += 100
    await orphans.look()
    assert len(hands.given_up) == 5


async def test_a_queue_that_is_known_again_is_left_alone(queue: Memory | Sqlite, clock: Clock) -> None:
    await add(queue, "gone", line=GONE)
    hands = Hands(queue, patience=100)
    orphans = Orphans(queue, hands, LEASE, clock)
    await orphans.look()
    clock.now += 100
    hands.lines.append(GONE)
    await orphans.look()
    assert hands.given_up == []


async def test_a_runner_gives_up_what_nobody_takes(engine: Memory | Sqlite) -> None:
    await add(engine, "gone", line=GONE)
    hands = Hands(engine, patience=0.2)
    async with runner_of(engine, hands).running():
        await until(lambda: hands.given_up == ["gone"])
    assert hands.jobs == []
