"""A store beside the broker: values of megabytes under keys, changed by compare-and-set."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.testing import connect
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio


def sharing(store: Any) -> Server:
    from tests.wings.ledger import append

    server = Server("ledger", shared=store)

    @server.tool
    async def write(line: str) -> None:
        await append(server.store, "ledger/lines", line.encode())

    return server


async def test_of_all_who_write_at_once_none_is_lost() -> None:
    from mcpkit import Memory

    store = Memory()
    servers = [sharing(store) for _ in range(2)]
    async with connect(servers[0]) as here, connect(servers[1]) as there:
        await asyncio.gather(
            *(client.call("write", {"line": "x"}) for client in (here, there) for _ in range(20))
        )
    stored = await store.get("ledger/lines")
    assert stored is not None
    assert Counter(stored.value) == {ord("x"): 40}


async def test_only_who_has_seen_the_latest_changes_it() -> None:
    from mcpkit import Memory

    store = Memory()
    assert await store.get("key") is None
    first = await store.put("key", b"1", version=None, ttl=60)
    assert first is not None
    assert await store.put("key", b"2", version=None, ttl=60) is None  # it is there already
    second = await store.put("key", b"2", version=first, ttl=60)
    assert second not in {None, first}
    assert await store.put("key", b"3", version=first, ttl=60) is None
    assert not await store.delete("key", version=first)
    assert (await store.get("key")).value == b"2"
    assert await store.delete("key", version=second)
    assert await store.put("key", b"4", version=second, ttl=60) is None  # it is gone
    assert await store.get("key") is None


async def test_megabytes_come_back_as_they_were_until_they_expire() -> None:
    from mcpkit import Memory

    clock = Clock()
    store = Memory(clock=clock)
    value = bytes(range(256)) * 32 * 1024
    version = await store.put("large", value, version=None, ttl=60)
    clock.now += 59
    assert await store.get("large") == (value, version)
    clock.now += 1
    assert await store.get("large") is None
    assert await store.put("large", b"", version=version, ttl=60) is None
    assert await store.put("large", b"", version=None, ttl=60) is not None


async def test_a_server_without_one_has_one_of_its_own() -> None:
    here, there = Server("a").store, Server("a").store
    await here.put("key", b"", version=None, ttl=60)
    assert await there.get("key") is None
