"""The engine within one process: it needs no event loop, as nothing in it waits."""

from __future__ import annotations

from typing import Any

from mcpkit import Memory
from tests.helpers.engines import finished


async def listed(memory: Memory) -> list[Any]:
    return [each async for each in memory.items("")]


def test_its_coroutines_never_suspend() -> None:
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


def test_it_ends_with_the_process() -> None:
    assert not Memory().is_lasting
