"""A toy record that processes share: lines are appended by compare-and-set, so that none is lost."""

from __future__ import annotations

from mcpkit import Store


async def append(store: Store, key: str, line: bytes) -> None:
    """Append a line, whoever else appends at the same time."""
    while True:
        stored = await store.get(key)
        value = line if stored is None else stored.value + line
        if (
            await store.put(key, value, version=None if stored is None else stored.version, ttl=60)
            is not None
        ):
            return
