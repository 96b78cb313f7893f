"""Going through what a Redis keeps: what that costs, and what it leaves out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Redis
from tests.helpers.engines import eventually
from tests.helpers.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


@pytest.fixture
def shared(server: RedisServer) -> Iterator[Redis]:
    with closing(Redis(server.url, prefix="own:")) as made:
        yield made


async def test_listing_takes_as_many_round_trips_as_there_are_batches(
    shared: Redis, server: RedisServer
) -> None:
    """However many keys Redis has that are not meant."""
    await asyncio.gather(*(shared.put(f"a/{number:04}", b"", version=None, ttl=60) for number in range(600)))
    await asyncio.gather(*(shared.write(f"a/{number}", {"f": "1"}, 60) for number in range(600)))

    async def listed(prefix: str) -> int:
        return len([key async for key, _ in shared.items(prefix)])

    assert await listed("a/0000") == 1
    before = server.calls()["evalsha"]
    assert await listed("a/00") == 100
    assert server.calls()["evalsha"] == before + 1
    assert await listed("a/") == 600
    assert server.calls()["evalsha"] == before + 4
    for number in range(4):
        await shared.put(f"b/{number}", b"b" * 200_000, version=None, ttl=60)
    before = server.calls()["evalsha"]
    assert await listed("b/") == 4
    assert server.calls()["evalsha"] <= before + 3


async def test_names_of_what_has_expired_are_forgotten(shared: Redis, server: RedisServer) -> None:
    for number in range(20):
        await shared.put(f"a/{number}", b"", version=None, ttl=0.001)
    await shared.put("b", b"", version=None, ttl=60)
    await asyncio.to_thread(
        eventually, lambda: server.ask("ZCOUNT", "own:expiry", "-inf", past(server)) == 20
    )
    assert [key async for key, _ in shared.items("")] == ["b"]
    for number in range(3):
        await shared.put(f"c/{number}", b"", version=None, ttl=60)
    names = [b"b", b"c/0", b"c/1", b"c/2"]
    assert server.ask("ZRANGE", "own:names", 0, -1) == names
    assert sorted(server.ask("ZRANGE", "own:expiry", 0, -1)) == names


def past(server: RedisServer) -> int:
    """Return when that was what is forgotten now: a second ago, in milliseconds of Redis'."""
    return (int(server.ask("TIME")[0]) - 1) * 1000


async def test_keys_are_listed_once_and_by_their_letters(shared: Redis) -> None:
    await asyncio.gather(*(shared.put(f"a/{n}", b"%d" % n, version=None, ttl=60) for n in range(600)))
    odd = ["a[1]", "a?", "a*", "a\\", "a^"]
    for key in (*odd, "ab"):
        await shared.put(key, b"", version=None, ttl=60)
    found = [key async for key, _ in shared.items("a/")]
    assert len(found) == 600
    assert len(set(found)) == 600
    for key in odd:
        assert [each async for each, _ in shared.items(key[:2])] == [key]
