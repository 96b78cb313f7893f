"""A Redis that is killed, paused, cut off, emptied or replaced: what is refused, what is missed, and that it heals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Redis
from mcpkit.state import redis_log
from mcpkit.state.redis_link import PATIENCE
from tests.helpers.redis_server import LossyProxy, RedisServer
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis", "--appendfsync", "always") as started:
        yield started


@pytest.fixture
def shared(server: RedisServer) -> Iterator[Redis]:
    with closing(Redis(server.url, prefix="own:")) as made:
        yield made


@pytest.fixture
def other(server: RedisServer) -> Iterator[Redis]:
    """What another process has."""
    with closing(Redis(server.url, prefix="own:")) as made:
        yield made


async def works_again(engine: Redis) -> None:
    """Wait until something can be kept."""

    async def attempt() -> bool:
        with suppress(OSError):
            await engine.write("again", {"f": "1"}, 60)
            return True
        return False

    deadline = time.monotonic() + 10
    while not await attempt():
        assert time.monotonic() < deadline, "it does not heal"


class Ear:
    """What one who listens has heard, and how often it was told that it has missed something."""

    def __init__(self, engine: Redis, topic: str = "t") -> None:
        self.heard: list[str] = []
        self.missed = 0
        engine.subscribe(topic, self.heard.append, self._miss)

    def _miss(self) -> None:
        self.missed += 1


async def hears(engine: Redis, heard: list[str], message: str) -> None:
    """Publish, and wait until it is heard; the first by who listens, as its connection may just be opened."""
    await engine.publish("t", message)
    await until(lambda: message in heard)


@pytest.mark.slow
async def test_what_was_acknowledged_survives_a_kill(shared: Redis, server: RedisServer) -> None:
    version = await shared.put("a", b"1", version=None, ttl=60)
    await shared.write("a", {"f": "1"}, 60)
    assert await shared.claim("a", 60)
    server.kill()
    started = time.monotonic()
    for refused in (
        shared.get("a"),
        shared.read("a"),
        shared.put("a", b"2", version=version, ttl=60),
        shared.claim("b", 60),
        shared.publish("t", "m"),
    ):
        with pytest.raises(ConnectionError, match=f"{server.url} cannot be reached"):
            await refused
    assert time.monotonic() - started < 5 * PATIENCE
    server.start()
    assert await shared.get("a") == (b"1", version)
    assert await shared.read("a") == {"f": "1"}
    assert not await shared.claim("a", 60)


async def test_a_start_in_the_midst_of_a_call_is_waited_for(shared: Redis, server: RedisServer) -> None:
    await shared.claim("a", 60)
    server.kill()
    asking = asyncio.create_task(shared.read("a"))
    server.start()
    assert await asking == {}


async def test_a_redis_that_was_started_again_is_heard_and_said(
    shared: Redis, other: Redis, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(shared)
    heard = ear.heard
    await hears(shared, heard, "before")
    server.kill()
    await until(lambda: "what other processes tell waits until it does" in caplog.text)
    server.start()
    await works_again(other)
    await hears(other, heard, "after")
    assert heard == ["before", "after"]
    assert caplog.text.count("it has been started again, or another one has taken its place") == 1
    assert caplog.text.count("does not answer, and what other processes tell") == 1
    assert ear.missed == 1


@pytest.mark.slow
async def test_a_redis_that_is_paused_is_said_in_time_and_what_was_told_is_heard(
    shared: Redis, other: Redis, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(shared)
    heard = ear.heard
    await hears(shared, heard, "before")
    server.pause()
    try:
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="does not answer within"):
            await shared.read("a")
        assert time.monotonic() - started < PATIENCE + 2
    finally:
        server.resume()
    await works_again(other)
    await hears(other, heard, "after")
    assert heard == ["before", "after"]
    assert "missed" not in caplog.text
    assert ear.missed == 0


@pytest.mark.slow
async def test_connections_that_are_cut_lose_nothing(
    shared: Redis, other: Redis, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(shared)
    heard = ear.heard
    await hears(shared, heard, "before")
    cutting = True

    async def cut() -> None:
        while cutting:
            await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "normal")
            await asyncio.sleep(0.2)

    cutter = asyncio.create_task(cut())
    told = []
    for number in range(300):
        with suppress(OSError):  # cut three times in one call
            await other.publish("t", str(number))
            told.append(str(number))
    cutting = False
    await cutter
    await hears(other, heard, "end")
    assert len(heard) == len(set(heard)), "none comes twice"
    assert set(told) <= set(heard)
    assert [each for each in heard if each in told] == told
    assert "missed" not in caplog.text
    assert ear.missed == 0


@pytest.mark.slow
async def test_no_count_is_lost_or_doubled_while_connections_are_cut(
    shared: Redis, server: RedisServer
) -> None:
    cutting = True

    async def cut() -> None:
        while cutting:
            await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "normal")
            await asyncio.sleep(0.1)

    async def add() -> None:
        for _ in range(50):
            while True:
                stored = await shared.get("count")
                value = b"1" if stored is None else b"%d" % (int(stored.value) + 1)
                if await shared.put("count", value, version=stored and stored.version, ttl=60) is not None:
                    break

    cutter = asyncio.create_task(cut())
    try:
        await asyncio.gather(*(add() for _ in range(4)))
    finally:
        cutting = False
        await cutter
    stored = await shared.get("count")
    assert stored is not None
    assert stored.value == b"200"


@pytest.mark.slow
async def test_connections_that_were_all_cut_are_opened_again(shared: Redis, server: RedisServer) -> None:
    for _ in range(5):
        assert await asyncio.gather(*(shared.read("a") for _ in range(100))) == [{}] * 100
        await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "normal")


@pytest.mark.slow
async def test_what_was_done_is_not_done_again_where_its_reply_got_lost(server: RedisServer) -> None:
    between = LossyProxy(server.port)
    listening, port = await between.start()
    heard: list[str] = []
    with closing(Redis(server.url, prefix="own:")) as direct:
        direct.subscribe("t", heard.append)
        engine = Redis(f"redis://127.0.0.1:{port}", prefix="own:")
        await hears(direct, heard, "before")
        await engine.publish("t", "known")

        async def lose(operation: Any) -> Any:
            between.drops_next_reply = True
            return await operation

        assert await lose(engine.claim("a", 60)) is True
        version = await lose(engine.put("a", b"1", version=None, ttl=60))
        assert await direct.get("a") == (b"1", version)
        assert await lose(engine.delete("a", version=version)) is True
        await lose(engine.publish("t", "once"))
        assert between.dropped_replies == 4
        await hears(direct, heard, "end")
        assert heard == ["before", "known", "once", "end"]
        await asyncio.to_thread(engine.close)
    listening.close()
    await listening.wait_closed()


@pytest.mark.parametrize("is_told_after", [True, False])
async def test_a_redis_that_was_emptied_is_noticed(
    is_told_after: bool,
    shared: Redis,
    other: Redis,
    server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_log, "_WAIT", 0.1)
    ear = Ear(shared)
    heard = ear.heard
    await hears(shared, heard, "before")
    server.ask("FLUSHALL")
    if is_told_after:
        await other.publish("t", "after")
    await until(lambda: "its log was emptied" in caplog.text)
    if not is_told_after:
        await other.publish("t", "after")
    await until(lambda: heard == ["before", "after"])
    assert caplog.text.count("may have been missed") == 1
    assert ear.missed == 1


@pytest.mark.slow
async def test_what_was_cut_from_the_log_before_it_was_read_is_noticed(
    shared: Redis, other: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_log, "MOST_MESSAGES", 100)
    heard: list[str] = []
    block = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(message: str) -> None:
        heard.append(message)
        if message == "first":
            loop.call_soon_threadsafe(block.set)
            while "go on" not in gate:
                time.sleep(0.001)

    gate: list[str] = []
    missed: list[bool] = []
    shared.subscribe("t", slow, lambda: missed.append(True))
    await hears(shared, heard, "before")
    await other.publish("t", "first")
    await block.wait()
    for number in range(700):
        await other.publish("t", str(number))
    gate.append("go on")
    await until(lambda: "699" in heard)
    assert len(heard) < 700
    assert caplog.text.count("more was told than its log holds") == 1
    assert missed == [True]


async def test_a_long_message_that_is_gone_is_noticed(
    shared: Redis, other: Redis, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(shared)
    heard = ear.heard
    await hears(shared, heard, "before")
    unconcerned = Ear(shared, "another topic")
    server.ask("XADD", "own:log", next_position(server), "t", "t", "k", "own:m:gone")
    await until(lambda: "a long message was not fetched in time" in caplog.text)
    await hears(other, heard, "after")
    assert heard == ["before", "after"]
    assert (ear.missed, unconcerned.missed) == (1, 0)


def next_position(server: RedisServer) -> str:
    info: Any = server.ask("XINFO", "STREAM", "own:log")
    began, number = info[info.index(b"last-generated-id") + 1].decode().split("-")
    return f"{began}-{int(number) + 1}"


async def test_a_replica_that_lags_and_takes_over_is_noticed(
    shared: Redis, other: Redis, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(shared)
    heard = ear.heard
    await hears(shared, heard, "first")
    earlier = server.ask("DUMP", "own:log")
    await hears(other, heard, "lost with the primary")
    server.ask("RESTORE", "own:log", 0, earlier, "REPLACE")
    server.ask("CLIENT", "KILL", "TYPE", "normal")
    await until(lambda: ear.missed)
    assert "its log was emptied, or is an earlier one" in caplog.text
    await hears(other, heard, "after")
    assert heard == ["first", "lost with the primary", "after"]
    assert ear.missed == 1


async def test_who_listens_while_redis_is_away_hears_what_comes_then(
    shared: Redis, other: Redis, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.kill()
    heard: list[str] = []
    with caplog.at_level(logging.INFO, "mcpkit"):
        shared.subscribe("t", heard.append)
        await until(lambda: "the shared store does not answer" in caplog.text)
        server.start()
        await until(lambda: "answers again" in caplog.text)
    await hears(other, heard, "after")
    assert heard == ["after"]


@pytest.mark.slow
async def test_an_older_redis_is_refused(shared: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.state.redis_link._OLDEST", (99, 0))
    for _ in range(2):
        with pytest.raises(OSError, match=r"is Redis .*: 6\.2 is the oldest that will do"):
            await shared.read("a")


async def test_a_cluster_is_refused(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "cluster", "--cluster-enabled", "yes") as cluster,
        closing(Redis(cluster.url)) as engine,
    ):
        for work in (engine.read("a"), engine.listening()):
            with pytest.raises(OSError, match="is a cluster of Redis: name a primary that is in none"):
                await work


async def test_what_another_start_is_set_to_is_told_again(
    server: RedisServer, shared: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await shared.listening()
    await shared.read("a")
    assert "maxmemory-policy" not in caplog.text
    server.kill()
    server.options = (*server.options, "--maxmemory-policy", "allkeys-lru")
    server.start()
    await until(lambda: "maxmemory-policy allkeys-lru" in caplog.text)
    await works_again(shared)
    assert caplog.text.count("maxmemory-policy allkeys-lru") == 1


async def test_it_is_closed_while_redis_is_paused(shared: Redis, server: RedisServer) -> None:
    await shared.claim("a", 60)
    server.pause()
    try:
        asking = asyncio.create_task(shared.read("a"))
        await asyncio.sleep(0)
        shared.close()
        with pytest.raises(OSError, match="was closed"):
            await asking
    finally:
        server.resume()
