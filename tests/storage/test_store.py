"""A store: one alone of all who have seen a version changes it, and what expires gives its memory back."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Context, Extension, Memory, Server, Stored
from mcpkit.testing import Client, connect
from tests.helpers.clock import Clock
from tests.helpers.engines import (
    ENGINES,
    THREADS,
    Engine,
    close,
    delete,
    done,
    get,
    in_threads,
    make_engine,
    put,
    size,
)

TURNS = {"memory": 200, "sqlite": 25, "redis": 25}


@pytest.fixture
def store(engine: Engine) -> Engine:
    return engine


# Versions


def test_a_version_is_of_one_value_in_one_store_alone(store: Engine) -> None:
    other = Memory()
    version = put(store, "a", b"1")
    assert version is not None
    put(other, "a", b"1")
    assert put(store, "b", b"1") != version
    assert put(other, "a", b"2", version) is None
    assert put(store, "b", b"2", version) is None
    again = put(store, "a", b"1", version)
    assert again not in {None, version}


def test_nothing_has_no_version(store: Engine) -> None:
    nothing: Any = None
    assert not delete(store, "a", nothing)
    assert put(store, "a", b"1", "made up") is None
    version = put(store, "a", b"1")
    assert version is not None
    assert not delete(store, "a", nothing)
    assert delete(store, "a", version)
    assert not delete(store, "a", version)


@pytest.mark.parametrize("value", ["text", bytearray(b"1"), memoryview(b"1"), 5, None, {"a": 1}])
def test_only_bytes_are_kept(store: Engine, value: Any) -> None:
    with pytest.raises(TypeError, match=f"a store keeps bytes, got {type(value).__name__}: encode it"):
        put(store, "a", value)
    assert get(store, "a") is None


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "60", None, True])
def test_a_key_expires_in_a_number_of_seconds(store: Engine, ttl: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="ttl must be a number of seconds above 0"):
        put(store, "a", ttl=ttl)
    assert get(store, "a") is None


# Expiry


@pytest.mark.parametrize(("seconds", "second"), [(30, 10), (10, 30)])
def test_each_value_has_its_own_time(clock: Clock, store: Engine, seconds: int, second: int) -> None:
    first = put(store, "a", b"1", ttl=seconds)
    version = put(store, "a", b"2", first, ttl=second)
    assert version is not None
    clock.now += second - 0.5
    assert get(store, "a") == (b"2", version)
    clock.now += 0.5
    assert get(store, "a") is None
    assert not delete(store, "a", version)
    assert put(store, "a", b"3", version) is None
    assert size(store) == 0


@pytest.mark.parametrize("write", ["put", "delete", "sweep"])
def test_megabytes_are_given_back_by_what_comes_next(clock: Clock, write: str) -> None:
    store = Memory(clock)
    tracemalloc.start()
    try:
        for number in range(8):
            put(store, str(number), bytes(1_000_000))
        full, _ = tracemalloc.get_traced_memory()
        clock.now += 60
        if write == "put":
            put(store, "other")
        elif write == "delete":
            delete(store, "other", "made up")
        else:
            store.sweep()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert full > 8_000_000
    assert left < 100_000


# What there is


def listed(store: Engine, prefix: str) -> dict[str, Stored]:
    async def listing() -> dict[str, Stored]:
        return {key: stored async for key, stored in store.items(prefix)}

    return done(listing())


def test_keys_are_listed_by_what_they_begin_with(clock: Clock, store: Engine) -> None:
    for key in ("a/1", "a/2", "a", "b/1", "a%", "A/1", "a/ä"):
        put(store, key, key.encode())
    put(store, "a/old", ttl=1)
    done(store.write("a/record", {"x": "1"}, 60))
    clock.now += 1
    assert set(listed(store, "a/")) == {"a/1", "a/2", "a/ä"}
    assert listed(store, "a/1") == {"a/1": get(store, "a/1")}
    assert len(listed(store, "")) == 7
    assert listed(store, "c") == {}


def test_values_and_records_of_one_key_are_two_things(store: Engine) -> None:
    version = put(store, "a", b"1")
    done(store.write("a", {"x": "1"}, 60))
    assert version is not None
    assert delete(store, "a", version)
    assert done(store.read("a")) == {"x": "1"}
    put(store, "a", b"2")
    done(store.erase("a"))
    assert (get(store, "a") or Stored(b"", "")).value == b"2"


# Threads and loops


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
def test_no_change_is_lost_when_threads_write_one_key(request: pytest.FixtureRequest, engine: Any) -> None:
    turns = TURNS[request.node.callspec.params["engine"]]

    def work(number: int) -> None:
        for _ in range(turns):
            while True:
                stored = get(engine, "a") or Stored(b"0", "")
                value = str(int(stored.value) + 1).encode()
                if put(engine, "a", value, stored.version or None) is not None:
                    break

    in_threads(work)
    stored = get(engine, "a")
    assert stored is not None
    assert int(stored.value) == THREADS * turns


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("end", ["put", "delete"])
def test_of_all_threads_that_have_seen_a_version_one_is_first(
    end: str, request: pytest.FixtureRequest, engine: Any
) -> None:
    turns = TURNS[request.node.callspec.params["engine"]]
    versions = [put(engine, str(turn)) for turn in range(turns)]
    first: list[int] = []

    def work(number: int) -> None:
        for turn, version in enumerate(versions):
            assert version is not None
            key = str(turn)
            if delete(engine, key, version) if end == "delete" else put(engine, key, b"x", version):
                first.append(turn)

    in_threads(work)
    assert sorted(first) == list(range(turns))


async def append(store: Engine, key: str, line: bytes) -> None:
    """Append a line by compare-and-set, until no other writer is first."""
    while True:
        stored = await store.get(key)
        value = line if stored is None else stored.value + line
        version = None if stored is None else stored.version
        if await store.put(key, value, version=version, ttl=60) is not None:
            return


@pytest.mark.slow
def test_of_all_loops_that_write_at_once_none_loses_a_line(store: Engine) -> None:
    def work(number: int) -> None:
        async def lines() -> None:
            await asyncio.gather(*(append(store, "lines", b"%d" % number) for _ in range(20)))

        asyncio.run(lines())

    in_threads(work)
    stored = get(store, "lines")
    assert stored is not None
    assert sorted(stored.value.decode()) == sorted(
        str(number) for number in range(THREADS) for _ in range(20)
    )


# Any steps

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


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_it_agrees_with_a_store_that_looks_at_everything(
    name: str, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = Clock()
    store = make_engine(name, tmp_path_factory.mktemp("engine"), clock)
    model: dict[str, tuple[Stored, float]] = {}
    versions: list[str] = []

    def held(key: str) -> Stored | None:
        stored, expires = model.get(key, (None, 0.0))
        return stored if expires > clock.now else None

    def seen(key: str, number: int) -> str | None:
        """The present version where the number is below 0, else any that has ever been."""
        present = held(key)
        if number < 0:
            return None if present is None else present.version
        return versions[number % len(versions)] if versions else None

    for step, *arguments in steps:
        if step == "wait":
            clock.now += arguments[0]
        elif step == "sweep":
            assert size(store) == sum(held(key) is not None for key in model)
        elif step == "put":
            key, number, ttl = arguments
            version, before = seen(key, number), held(key)
            value = b"%d" % len(versions)
            new = put(store, key, value, version, ttl)
            assert (new is not None) == (version == (None if before is None else before.version))
            if new is not None:
                assert new not in versions
                versions.append(new)
                model[key] = (Stored(value, new), clock.now + ttl)
        else:
            key, number = arguments
            version, before = seen(key, number), held(key)
            is_latest = before is not None and version == before.version
            assert delete(store, key, version or "made up") == is_latest
            if is_latest:
                del model[key]
        assert [get(store, key) for key in "ab"] == [held(key) for key in "ab"]
    close(store)


# Handlers


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    inner = Server("inner")
    notes = Extension("com.example/notes")

    @inner.tool
    async def note(text: str, ctx: Context) -> bool:
        return await ctx.store.put("outer/note", text.encode(), version=None, ttl=60) is not None

    @notes.tool
    async def read(ctx: Context) -> str:
        stored = await ctx.store.get("outer/note")
        return "nothing" if stored is None else stored.value.decode()

    outer = Server("outer", shared=Memory())
    outer.include(inner)
    outer.include(notes)
    async with connect(outer, revision=request.param) as connected:
        yield connected


@pytest.mark.anyio
async def test_what_a_server_includes_keeps_things_in_its_store(client: Client) -> None:
    assert (await client.call("read")).text == "nothing"
    assert (await client.call("note", {"text": "ä" * 500_000})).text == "true"
    assert (await client.call("note", {"text": "other"})).text == "false"
    assert (await client.call("read")).text == "ä" * 500_000
