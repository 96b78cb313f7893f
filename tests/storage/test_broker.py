"""The contract of every engine: topics, records, claims, rate limits and versioned values."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.storage import Memory, Sqlite, StoredValue
from tests.helpers.clock import Clock
from tests.helpers.engines import (
    THREADS,
    Engine,
    claim,
    close,
    delete,
    done,
    eventually,
    get,
    in_threads,
    make_engine,
    put,
    read,
    size,
)

# Topics


def test_publish_reaches_every_listener_of_the_topic_in_order(engine):
    first: list[str] = []
    second: list[str] = []
    engine.subscribe("changes", first.append)
    engine.subscribe("changes", second.append)
    engine.subscribe("other", lambda _: pytest.fail("another topic"))
    for message in ["a", "b", "", "ä\0\n" * 10_000]:
        done(engine.publish("changes", message))
    eventually(lambda: len(second) == 4)
    assert first == second == ["a", "b", "", "ä\0\n" * 10_000]


def test_failing_listener_is_logged_and_others_receive_the_message(engine, caplog):
    def fail(message: str) -> None:
        raise LookupError(message)

    messages: list[str] = []
    engine.subscribe("changes", fail)
    engine.subscribe("changes", messages.append)
    with caplog.at_level(logging.ERROR, "mcpkit"):
        done(engine.publish("changes", "a"))
        eventually(lambda: messages == ["a"])
    assert "changes" in caplog.text
    assert "LookupError: a" in caplog.text


# Expiry


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


@given(steps=STEPS)
def test_records_and_claims_agree_with_a_model(
    engine_name: str, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = Clock()
    engine, model = make_engine(engine_name, tmp_path_factory.mktemp("engine"), clock), Model(clock)
    for step, *arguments in steps:
        if step == "wait":
            clock.now += arguments[0]
        elif step == "sweep":
            assert size(engine) == len(model)
        else:
            assert done(getattr(engine, step)(*arguments)) == getattr(model, step)(*arguments)
        assert {key: read(engine, key) for key in "abc"} == {key: model.read(key) for key in "abc"}
    clock.now += 20
    assert size(engine) == 0
    close(engine)


# Threads


@pytest.fixture
def turns(engine: Engine) -> int:
    return 300 if isinstance(engine, Memory) else 25


@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_claims_succeed_once(engine, turns):
    won: list[int] = []

    def work(number: int) -> None:
        for turn in range(turns):
            if claim(engine, str(turn)):
                won.append(turn)

    in_threads(work)
    assert sorted(won) == list(range(turns))


# Rate-limit buckets


def spend(engine: Memory | Sqlite, key: str = "a", every: float = 2, burst: int = 3, cost: int = 1) -> float:
    return done(engine.take_tokens(key, every=every, burst=burst, cost=cost))


def test_rate_limit_allows_burst_then_rate(engine, clock: Clock):
    assert [spend(engine) for _ in range(3)] == [0.0] * 3
    assert spend(engine) == pytest.approx(2, abs=0.01)
    clock.now += 1.5
    assert spend(engine) == pytest.approx(0.5, abs=0.01)
    clock.now += 0.51
    assert spend(engine) == 0.0
    assert spend(engine) > 1.9


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_rate_limit_allows_exactly_the_burst(engine_name: str, tmp_path: Path):
    engine = make_engine(engine_name, tmp_path)
    passed: list[float] = []

    def work(number: int) -> None:
        passed.extend(spend(engine, every=3600.0, burst=100) for _ in range(1000 // THREADS))

    in_threads(work)
    close(engine)
    assert len(passed) == 1000
    assert passed.count(0.0) == 100


# Threads


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_compare_and_set_loses_no_change(engine: Engine) -> None:
    turns = 200 if isinstance(engine, Memory) else 25

    def work(number: int) -> None:
        for _ in range(turns):
            while True:
                stored = get(engine, "a") or StoredValue(b"0", "")
                value = str(int(stored.value) + 1).encode()
                if put(engine, "a", value, stored.version or None) is not None:
                    break

    in_threads(work)
    stored = get(engine, "a")
    assert stored is not None
    assert int(stored.value) == THREADS * turns


# Model

VALUE_KEYS = st.sampled_from("ab")

SEEN = st.integers(-3, 20)

VALUE_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), VALUE_KEYS, SEEN, st.integers(1, 9)),
        st.tuples(st.just("delete"), VALUE_KEYS, SEEN),
        st.tuples(st.just("wait"), st.integers(1, 6)),
        st.tuples(st.just("sweep")),
    ),
    max_size=40,
)


@given(steps=VALUE_STEPS)
def test_values_agree_with_a_model(
    engine_name: str, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = Clock()
    engine = make_engine(engine_name, tmp_path_factory.mktemp("engine"), clock)
    model: dict[str, tuple[StoredValue, float]] = {}
    versions: list[str] = []

    def current(key: str) -> StoredValue | None:
        stored, expires = model.get(key, (None, 0.0))
        return stored if expires > clock.now else None

    def seen(key: str, number: int) -> str | None:
        """The present version where the number is below 0, else any that has ever been."""
        present = current(key)
        if number < 0:
            return None if present is None else present.version
        return versions[number % len(versions)] if versions else None

    for step, *arguments in steps:
        if step == "wait":
            clock.now += arguments[0]
        elif step == "sweep":
            assert size(engine) == sum(current(key) is not None for key in model)
        elif step == "put":
            key, number, ttl = arguments
            version, before = seen(key, number), current(key)
            value = b"%d" % len(versions)
            new = put(engine, key, value, version, ttl)
            assert (new is not None) == (version == (None if before is None else before.version))
            if new is not None:
                assert new not in versions
                versions.append(new)
                model[key] = (StoredValue(value, new), clock.now + ttl)
        else:
            key, number = arguments
            version, before = seen(key, number), current(key)
            is_latest = before is not None and version == before.version
            assert delete(engine, key, version or "made up") == is_latest
            if is_latest:
                del model[key]
        assert [get(engine, key) for key in "ab"] == [current(key) for key in "ab"]
    close(engine)
