"""Buckets in an engine: so many at once, so many in the long run, whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit import Memory, Redis, Sqlite
from tests.helpers.clock import Clock
from tests.helpers.engines import ENGINES, THREADS, claim, close, done, in_threads, make_engine, read, size

HOUR = 3600.0


@pytest.fixture
def broker(engine: Memory | Sqlite) -> Memory | Sqlite:
    return engine


def spend(broker: Memory | Sqlite, key: str = "a", every: float = 2, burst: int = 3, cost: int = 1) -> float:
    return done(broker.spend(key, every=every, burst=burst, cost=cost))


def test_a_burst_passes_and_then_one_at_a_time(broker, clock: Clock):
    assert [spend(broker) for _ in range(3)] == [0.0] * 3
    assert spend(broker) == pytest.approx(2, abs=0.01)
    clock.now += 1.5
    assert spend(broker) == pytest.approx(0.5, abs=0.01)
    clock.now += 0.51
    assert spend(broker) == 0.0
    assert spend(broker) > 1.9


def test_what_is_refused_takes_nothing(broker, clock: Clock):
    for _ in range(3):
        spend(broker)
    for _ in range(50):
        assert spend(broker) > 0
    clock.now += 2
    assert spend(broker) == 0.0


def test_a_bucket_is_full_again_after_a_while_and_gone(broker, clock: Clock):
    for _ in range(4):
        spend(broker)
    assert size(broker) == 1
    clock.now += 6.01
    assert size(broker) == 0
    assert [spend(broker) for _ in range(3)] == [0.0] * 3
    assert spend(broker) > 0


def test_buckets_are_apart_from_each_other_and_from_claims_and_records(broker):
    assert [spend(broker, "a", burst=1), spend(broker, "b", burst=1)] == [0.0, 0.0]
    assert spend(broker, "a", burst=1) > 0
    assert claim(broker, "c")
    assert read(broker, "a") == {}


def test_several_are_taken_at_once_or_none(broker, clock: Clock):
    assert spend(broker, cost=2) == 0.0
    assert spend(broker, cost=2) == pytest.approx(2, abs=0.01)
    assert spend(broker, cost=1) == 0.0
    assert spend(broker, cost=3) == pytest.approx(6, abs=0.01)


@pytest.mark.parametrize("every", [1e-3, 1 / 7, 1 / 3, 1, 10])
def test_who_keeps_to_the_rate_is_never_refused(broker, clock: Clock, every: float):
    if not isinstance(broker, Redis):  # whose clock is there already
        clock.now = 1.8e9  # floating point is less exact there
    for _ in range(100):
        assert spend(broker, every=every, burst=1) == 0.0
        clock.now += every


@pytest.mark.slow
def test_in_the_long_run_it_is_no_more_than_the_rate(broker, clock: Clock):
    taken = 0
    for _ in range(2000):
        taken += spend(broker, every=1, burst=5) == 0.0
        clock.now += 0.0999
    assert taken in {5 + 199, 5 + 200}


def test_a_clock_that_is_put_back_makes_nobody_wait_for_long(broker, clock: Clock):
    spend(broker)
    clock.now -= 86_400
    assert spend(broker) <= 2.01
    clock.now += 2
    assert spend(broker) == 0.0


def test_a_smaller_bucket_is_no_longer_to_wait_for(broker, clock: Clock):
    for _ in range(100):
        spend(broker, every=60, burst=100)
    assert spend(broker, every=2, burst=3) <= 2.01


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.usefixtures("frequent_switches")
def test_of_a_thousand_in_threads_exactly_the_burst_passes(name: str, tmp_path: Path):
    broker = make_engine(name, tmp_path)
    passed: list[float] = []

    def work(number: int) -> None:
        passed.extend(spend(broker, every=HOUR, burst=100) for _ in range(1000 // THREADS))

    in_threads(work)
    close(broker)
    assert len(passed) == 1000
    assert passed.count(0.0) == 100
