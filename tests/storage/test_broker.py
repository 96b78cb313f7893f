"""The contract of every engine: topics, records, claims, rate limits and versioned values."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.storage import StoredValue
from tests.helpers import engines
from tests.helpers.engines import get, put
from tests.helpers.waiting import Clock, eventually


def test_publish_reaches_every_listener_of_the_topic_in_order(engine):
    first: list[str] = []
    second: list[str] = []
    engine.subscribe("changes", first.append)
    engine.subscribe("changes", second.append)
    engine.subscribe("other", lambda _: pytest.fail("another topic"))
    for message in ["a", "b", "", "ä\0\n" * 10_000]:
        engines.done(engine.publish("changes", message))
    eventually(lambda: len(second) == 4)
    assert first == second == ["a", "b", "", "ä\0\n" * 10_000]


def test_failing_listener_is_logged_and_others_receive_the_message(engine, caplog):
    def fail(message: str) -> None:
        raise LookupError(message)

    messages: list[str] = []
    engine.subscribe("changes", fail)
    engine.subscribe("changes", messages.append)
    with caplog.at_level(logging.ERROR, "mcpkit"):
        engines.done(engine.publish("changes", "a"))
        eventually(lambda: messages == ["a"])
    assert "changes" in caplog.text
    assert "LookupError: a" in caplog.text


# Expiry

KEYS = st.sampled_from("ab")
CHANGES = st.dictionaries(st.sampled_from("xyz"), st.none() | st.sampled_from(["", "1", "2"]), max_size=3)
NUMBERS = st.integers(-3, 20)
STEPS = st.one_of(
    st.tuples(st.just("write"), KEYS, CHANGES, st.integers(-1, 20)),
    st.tuples(st.just("erase"), KEYS),
    st.tuples(st.just("claim"), st.sampled_from("cd"), st.integers(1, 20)),
    st.tuples(st.just("put"), KEYS, NUMBERS, st.integers(1, 9)),
    st.tuples(st.just("delete"), KEYS, NUMBERS),
    st.tuples(st.just("wait"), st.integers(1, 10)),
    st.tuples(st.just("sweep")),
)


class Model:
    """Records, claims and values by kind and key, each with its expiry."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.entries: dict[tuple[str, str], tuple[Any, float]] = {}

    def put(self, kind: str, key: str, value: Any, ttl: float) -> None:
        self.entries[kind, key] = (value, self.clock.now + ttl)

    def get(self, kind: str, key: str, default: Any = None) -> Any:
        value, expires = self.entries.get((kind, key), (default, 0.0))
        return value if expires > self.clock.now else default

    def __len__(self) -> int:
        return sum(bool(self.get(*each)) for each in self.entries)


@given(steps=st.lists(STEPS, max_size=60))
def test_records_claims_and_values_agree_with_a_model(engine_name, steps, tmp_path_factory) -> None:
    clock = Clock()
    engine, model = engines.make_engine(engine_name, tmp_path_factory.mktemp("engine"), clock), Model(clock)
    versions: list[str] = []

    def version_of(key: str, number: int) -> str | None:
        """Return the present version where the number is below 0, else any earlier one."""
        if number < 0:
            return model.get("value", key, StoredValue(b"", None)).version
        return versions[number % len(versions)] if versions else None

    for step, *arguments in steps:
        key = arguments[0] if arguments else ""
        present = model.get("value", key)
        if step == "wait":
            clock.now += arguments[0]
        elif step == "sweep":
            assert engines.size(engine) == len(model)
        elif step == "write":
            engines.write(engine, *arguments)
            fields = model.get("record", key, {}) | arguments[1]
            kept = {name: text for name, text in fields.items() if text is not None}
            model.put("record", key, kept, arguments[2])
        elif step == "erase":
            engines.done(engine.erase(key))
            model.entries.pop(("record", key), None)
        elif step == "claim":
            is_free = model.get("claim", key) is None
            assert engines.claim(engine, *arguments) == is_free
            if is_free:
                model.put("claim", key, True, arguments[1])
        elif step == "put":
            version, value = version_of(key, arguments[1]), b"%d" % len(versions)
            new = put(engine, key, value, version, arguments[2])
            assert (new is not None) == (version == (present.version if present else None))
            if new is not None:
                assert new not in versions
                versions.append(new)
                model.put("value", key, StoredValue(value, new), arguments[2])
        else:
            version = version_of(key, arguments[1])
            is_latest = present is not None and version == present.version
            assert engines.delete(engine, key, version or "made up") == is_latest
            if is_latest:
                del model.entries["value", key]
        assert [engines.read(engine, key) for key in "ab"] == [model.get("record", key, {}) for key in "ab"]
        assert [get(engine, key) for key in "ab"] == [model.get("value", key) for key in "ab"]
    clock.now += 20
    assert engines.size(engine) == 0
    engines.close(engine)


def take_token(engine: engines.Engine, every: float = 2, burst: int = 3) -> float:
    return engines.done(engine.take_tokens("a", every=every, burst=burst, cost=1))


def test_items_are_those_with_the_prefix(engine):
    async def keys(prefix: str) -> list[str]:
        return sorted([key async for key, _ in engine.items(prefix)])

    for key in ("a", "a/1", "a/2", "b/1"):
        put(engine, key)
    assert engines.done(keys("a/")) == ["a/1", "a/2"]
    assert engines.done(keys("")) == ["a", "a/1", "a/2", "b/1"]


def test_rate_limit_allows_burst_then_rate(engine, clock: Clock):
    assert [take_token(engine) for _ in range(3)] == [0.0] * 3
    assert take_token(engine) == pytest.approx(2, abs=0.01)
    clock.now += 1.5
    assert take_token(engine) == pytest.approx(0.5, abs=0.01)
    clock.now += 0.51
    assert take_token(engine) == 0.0
    assert take_token(engine) > 1.9


# Threads


@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_claims_tokens_and_changes_are_atomic(engine: engines.Engine, turns: int) -> None:
    claimed: list[int] = []
    waits: list[float] = []

    def increment() -> bool:
        stored = get(engine, "a") or StoredValue(b"0", "")
        value = str(int(stored.value) + 1).encode()
        return put(engine, "a", value, stored.version or None) is not None

    def work(number: int) -> None:
        for turn in range(turns):
            claimed.extend([turn] if engines.claim(engine, f"claim {turn}") else [])
            waits.append(take_token(engine, 3600.0, 100))
            while not increment():
                pass

    engines.in_threads(work)
    assert sorted(claimed) == list(range(turns))
    assert (len(waits), waits.count(0.0)) == (engines.THREADS * turns, 100)
    assert int((get(engine, "a") or StoredValue(b"0", "")).value) == engines.THREADS * turns
