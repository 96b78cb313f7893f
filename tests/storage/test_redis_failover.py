"""A replica of a Redis that takes over: what was lost with the primary is noticed, and all goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mcpkit import Redis
from tests.helpers.redis_server import LossyProxy, RedisServer
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "primary", "--repl-diskless-sync-delay", "0") as started:
        yield started


@pytest.fixture
def replica(primary: RedisServer, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(primary.port)) as started:
        yield started


@pytest.fixture
async def between(primary: RedisServer) -> AsyncIterator[tuple[LossyProxy, str]]:
    """What leads to the primary, whichever that is, and where it is."""
    proxy = LossyProxy(primary.port)
    listening, port = await proxy.start()
    yield proxy, f"redis://127.0.0.1:{port}/0"
    listening.close()
    await listening.wait_closed()


async def take_over(primary: RedisServer, replica: RedisServer, proxy: LossyProxy) -> None:
    primary.kill()
    proxy.port = replica.port


async def attempts(engine: Redis, topic: str, text: str) -> None:
    """Publish as soon as that can be."""
    while True:
        with suppress(OSError):
            await engine.publish(topic, text)
            return


@pytest.mark.parametrize("are_many_told_meanwhile", [False, True])
async def test_who_listens_is_told_that_something_was_lost(
    are_many_told_meanwhile: bool,
    primary: RedisServer,
    replica: RedisServer,
    between: tuple[LossyProxy, str],
) -> None:
    proxy, url = between
    heard: list[str] = []
    missed: list[int] = []
    engine, other = Redis(url), Redis(url)
    try:
        engine.subscribe("t", heard.append, lambda: missed.append(len(heard)))
        await engine.listening()
        for number in range(3):
            await other.publish("t", f"kept {number}")
        await until(lambda: replica.replicated() >= primary.replicated())
        replica.ask("REPLICAOF", "NO", "ONE")  # what is written from now on is lost with the primary
        for number in range(2):
            await other.publish("t", f"lost {number}")
        await until(lambda: len(heard) == 5)
        if are_many_told_meanwhile:  # so that the log is longer than what was heard of the other
            with closing(Redis(replica.url)) as early:
                for number in range(10):
                    await early.publish("t", f"early {number}")
        assert not missed
        await take_over(primary, replica, proxy)
        await until(lambda: missed)
        await attempts(other, "t", "after")
        await until(lambda: "after" in heard)
        assert heard[-1] == "after"
        assert heard.count("after") == 1
    finally:
        for each in (engine, other):
            await asyncio.to_thread(each.close)


async def test_all_goes_on_with_what_the_replica_has(
    primary: RedisServer, replica: RedisServer, between: tuple[LossyProxy, str]
) -> None:
    proxy, url = between
    engine = Redis(url)
    try:
        version = await engine.put("kept", b"1", version=None, ttl=600)
        assert await engine.claim("kept", 600)
        await until(lambda: replica.replicated() >= primary.replicated())
        replica.ask("REPLICAOF", "NO", "ONE")
        lost = await engine.put("kept", b"2", version=version, ttl=600)
        assert await engine.claim("lost", 600)
        await take_over(primary, replica, proxy)

        async def again() -> bool:
            with suppress(OSError):
                return await engine.get("kept") == (b"1", version)
            return False

        while not await again():
            pass
        assert lost is not None
        assert await engine.put("kept", b"3", version=lost, ttl=600) is None
        assert await engine.put("kept", b"3", version=version, ttl=600)
        assert not await engine.claim("kept", 600)
        assert await engine.claim("lost", 600)
        assert [key async for key, _ in engine.items("")] == ["kept"]
    finally:
        await asyncio.to_thread(engine.close)


async def test_a_primary_that_becomes_a_replica_is_left(
    primary: RedisServer, replica: RedisServer, between: tuple[LossyProxy, str]
) -> None:
    """It still answers, but takes nothing: connections are opened anew, which lead to the other one."""
    proxy, url = between
    engine = Redis(url)
    try:
        assert await engine.claim("a", 600)
        await until(lambda: replica.replicated() >= primary.replicated())
        replica.ask("REPLICAOF", "NO", "ONE")
        proxy.port = replica.port
        primary.ask("REPLICAOF", "127.0.0.1", replica.port)
        assert not await engine.claim("a", 600)
        assert await engine.claim("b", 600)
        assert await engine.read("b") == {}
    finally:
        await asyncio.to_thread(engine.close)


async def test_a_replica_is_no_place_to_keep_something(replica: RedisServer) -> None:
    with closing(Redis(replica.url)) as engine, pytest.raises(OSError, match=r"refuses: .*read only replica"):
        await engine.claim("a", 600)
