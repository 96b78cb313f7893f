"""The engine in memory: expiry, memory use, `Context.store`, and what `Server(shared=)` accepts."""

from __future__ import annotations

import tracemalloc

import pytest

from mcpkit import Memory, Server
from tests.helpers.clock import Clock
from tests.helpers.engines import delete, put


@pytest.fixture
def memory(clock: Clock) -> Memory:
    return Memory(clock)


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


def test_server_names_the_missing_methods_of_an_engine() -> None:
    class Half:
        is_lasting = True
        home = "here"
        read = write = claim = publish = subscribe = get = put = delete = Memory.get

    with pytest.raises(
        TypeError,
        match=r"shared lacks erase, spend, listening, items: mcpkit\.Shared says what an engine has",
    ):
        Server("s", shared=Half(), secret=SECRET)  # type: ignore[arg-type]  # the mistake
