"""Values with versions: the contract of every engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.storage import Memory, StoredValue
from tests.helpers.clock import Clock
from tests.helpers.engines import (
    THREADS,
    Engine,
    close,
    delete,
    get,
    in_threads,
    make_engine,
    put,
    size,
)

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

KEYS = st.sampled_from("ab")

SEEN = st.integers(-3, 20)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, SEEN, st.integers(1, 9)),
        st.tuples(st.just("delete"), KEYS, SEEN),
        st.tuples(st.just("wait"), st.integers(1, 6)),
        st.tuples(st.just("sweep")),
    ),
    max_size=40,
)


@given(steps=STEPS)
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
