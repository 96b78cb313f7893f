"""When a broker gives back what nobody prolongs."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Memory
from tests.helpers.clock import Clock
from tests.helpers.engines import ENGINES, Engine, claim, close, done, make_engine, read, size, write

pytestmark = pytest.mark.long


@pytest.fixture
def broker(engine: Engine) -> Engine:
    return engine


@pytest.fixture
def memory(clock: Clock) -> Memory:
    return Memory(clock)


def test_a_key_is_gone_exactly_when_its_time_is_over(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    clock.now += 9.999
    assert read(broker, "a") == {"level": "info"}
    clock.now = 1010.0
    assert read(broker, "a") == {}


def test_an_expired_key_is_written_anew(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    clock.now += 10
    write(broker, "a", {"uri": "x"}, 10)
    assert read(broker, "a") == {"uri": "x"}


def test_an_expired_key_cannot_be_touched_back_to_life(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    clock.now += 10
    write(broker, "a", {}, 10)
    assert read(broker, "a") == {}


@pytest.mark.parametrize("changes", [{}, {"level": "debug"}])
@pytest.mark.parametrize("ttl", [5, 20])
def test_each_write_sets_the_time_for_the_whole_key(broker, clock, changes, ttl):
    write(broker, "a", {"level": "info", "uri": "x"}, 10)
    clock.now += 1
    write(broker, "a", changes, ttl)
    clock.now += ttl - 0.5
    assert read(broker, "a") == {"level": "info", "uri": "x"} | changes
    clock.now += 0.5
    assert read(broker, "a") == {}
    assert size(broker) == 0


@pytest.mark.parametrize("ttl", [0, -1])
def test_with_no_time_left_the_key_is_gone_at_once(broker, ttl):
    write(broker, "a", {"level": "info"})
    write(broker, "a", {"level": "debug"}, ttl)
    assert read(broker, "a") == {}


def test_a_claim_is_free_again_exactly_when_its_time_is_over(broker, clock):
    assert claim(broker, "a", 10)
    clock.now += 9.999
    assert not claim(broker, "a", 10), "which does not prolong it"
    clock.now = 1010.0
    assert claim(broker, "a", 10)
    assert not claim(broker, "a", 10)


def test_each_claim_gives_back_what_has_expired(memory, clock):
    for number in range(100):
        claim(memory, str(number), 10 + number % 2)
    write(memory, "written", {"level": "info"}, 10)
    clock.now += 10
    assert claim(memory, "new")
    assert len(memory) == 51


def test_each_write_gives_back_what_has_expired(memory, clock):
    for number in range(100):
        write(memory, str(number), {"level": "info"}, 10 + number % 2)
    clock.now += 10
    write(memory, "new", {"level": "info"})
    assert len(memory) == 51


def test_a_prolonged_key_survives_the_sweep_of_its_first_date(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    write(broker, "a", {}, 30)
    clock.now += 20
    assert size(broker) == 1
    assert read(broker, "a") == {"level": "info"}
    clock.now += 10
    assert size(broker) == 0


def test_ten_thousand_abandoned_keys_give_their_memory_back(memory, clock):
    write(memory, "kept", {"level": "info"}, 1e6)
    tracemalloc.start()
    try:
        for number in range(10_000):
            write(memory, f"weather/session/{number}", {"level": "info", "uri": str(number)})
        full, _ = tracemalloc.get_traced_memory()
        clock.now += 60
        memory.sweep()
        gc.collect()  # the interpreter keeps some memory of its own for the next tuples
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(memory) == 1
    assert full > 1_000_000
    assert left < 20_000


def test_keys_that_come_and_go_leave_nothing_until_their_date(memory):
    tracemalloc.start()
    try:
        for number in range(5_000):
            write(memory, str(number), {"level": "info"}, 1e6)
            done(memory.erase(str(number)))
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 50_000


def test_a_date_that_moves_nearer_bit_by_bit_costs_no_memory(memory, clock):
    # An absolute end told as seconds from now drifts, as two clocks never agree.
    write(memory, "a", {"level": "info"}, 1e6)
    tracemalloc.start()
    try:
        for number in range(5_000):
            write(memory, "a", {}, 1e6 - number / 1000)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 50_000
    clock.now += 1e6 - 4.999
    assert read(memory, "a") == {}


KEYS = st.sampled_from("abc")


CHANGES = st.dictionaries(st.sampled_from("xyz"), st.none() | st.sampled_from(["", "1", "2"]), max_size=3)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), KEYS, CHANGES, st.integers(-1, 20)),
        st.tuples(st.just("erase"), KEYS),
        st.tuples(st.just("claim"), st.sampled_from("de"), st.integers(1, 20)),
        st.tuples(st.just("wait"), st.integers(1, 10)),
        st.tuples(st.just("sweep")),
    ),
    max_size=40,
)


class Model:
    """The same store with no cleverness: it looks at everything each time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.kept: dict[str, tuple[dict[str, str], float]] = {}
        self.claimed: dict[str, float] = {}

    def read(self, key: str) -> dict[str, str]:
        fields, expires = self.kept.get(key, ({}, 0.0))
        return fields if expires > self.clock.now else {}

    def write(self, key: str, changes: dict[str, str | None], ttl: float) -> None:
        fields = {name: text for name, text in (self.read(key) | changes).items() if text is not None}
        self.kept[key] = (fields, self.clock.now + ttl)

    def erase(self, key: str) -> None:
        self.kept.pop(key, None)

    def claim(self, key: str, ttl: float) -> bool:
        if self.claimed.get(key, 0.0) > self.clock.now:
            return False
        self.claimed[key] = self.clock.now + ttl
        return True

    def __len__(self) -> int:
        return sum(bool(self.read(key)) for key in "abc") + sum(
            expires > self.clock.now for expires in self.claimed.values()
        )


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_it_agrees_with_a_store_that_looks_at_everything(
    name: str, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = Clock()
    broker, model = make_engine(name, tmp_path_factory.mktemp("engine"), clock), Model(clock)
    for step, *arguments in steps:
        if step == "wait":
            clock.now += arguments[0]
        elif step == "sweep":
            assert size(broker) == len(model)
        else:
            assert done(getattr(broker, step)(*arguments)) == getattr(model, step)(*arguments)
        assert {key: read(broker, key) for key in "abc"} == {key: model.read(key) for key in "abc"}
    clock.now += 20
    assert size(broker) == 0
    close(broker)
