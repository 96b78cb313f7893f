"""The engine in memory: expiry, memory use, `Context.store`, and what `Server(shared=)` accepts."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from mcpkit import Memory, Server
from tests.helpers.clock import Clock
from tests.helpers.engines import delete, finished, put, write


async def listed(memory: Memory) -> list[Any]:
    return [each async for each in memory.items("")]


def test_memory_coroutines_never_suspend() -> None:
    memory = Memory()
    finished(memory.write("a", {"x": "1"}, 60))
    assert finished(memory.read("a")) == {"x": "1"}
    finished(memory.erase("a"))
    assert finished(memory.claim("b", 60))
    finished(memory.publish("t", "m"))
    version = finished(memory.put("a", b"1", version=None, ttl=60))
    assert version is not None
    assert finished(listed(memory)) == [("a", (b"1", version))]
    assert finished(memory.get("a")) == (b"1", version)
    assert finished(memory.delete("a", version=version))


@pytest.fixture
def memory(clock: Clock) -> Memory:
    return Memory(clock)


def test_write_removes_expired_entries(memory, clock):
    for number in range(100):
        write(memory, str(number), {"level": "info"}, 10 + number % 2)
    clock.now += 10
    write(memory, "new", {"level": "info"})
    assert len(memory) == 51


@pytest.mark.parametrize("write", ["put", "delete", "sweep"])
def test_expired_values_are_freed_by_the_next_call(clock: Clock, write: str) -> None:
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


# Server(shared=)

SECRET = "a secret of sixteen bytes and more"


class Lasting(Memory):
    """An engine that says of itself that it outlives the process."""

    is_lasting = True


@pytest.mark.parametrize("secret", ["argument", "environment"])
def test_server_with_a_lasting_engine_requires_a_secret(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)
    with pytest.raises(
        ValueError, match=r"Lasting\(\.\.\.\) outlives this process.* set MCPKIT_SECRET or write"
    ):
        Server("s", shared=Lasting())
    if secret == "environment":
        monkeypatch.setenv("MCPKIT_SECRET", SECRET)
    Server("s", shared=Lasting(), secret=SECRET if secret == "argument" else None)
    Server("s", shared=Memory())
