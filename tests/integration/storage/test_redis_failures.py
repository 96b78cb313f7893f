"""Redis that is killed, paused, cut off, emptied or replaced: errors, gaps, recovery and rate limits."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.storage import Redis
from mcpkit.storage.jobs_and_heartbeats import Message
from mcpkit.storage.redis_connection import DEFAULT_TIMEOUT
from tests.helpers.raw_client import initialize, serving
from tests.helpers.redis_server import RedisProxy, RedisServer
from tests.helpers.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def other(server: RedisServer) -> Iterator[Redis]:
    """An engine as another process has it."""
    with closing(Redis(server.url, prefix="own:")) as made:
        yield made


@pytest.fixture
async def proxied(server: RedisServer) -> AsyncIterator[RedisProxy]:
    async with RedisProxy(server.port) as proxy:
        yield proxy


async def wait_until_writable(engine: Redis) -> None:
    """Wait until something can be kept."""

    async def attempt() -> bool:
        with suppress(OSError):
            await engine.write("again", {"f": "1"}, 60)
            return True
        return False

    deadline = time.monotonic() + 10
    while not await attempt():
        assert time.monotonic() < deadline, "it does not heal"


class Listener:
    """Messages that a listener has received, and the number of reported gaps."""

    def __init__(self, engine: Redis, topic: str = "t") -> None:
        self.messages: list[str] = []
        self.missed = 0
        engine.subscribe(topic, self.messages.append, self._miss)

    def _miss(self) -> None:
        self.missed += 1


async def publish_and_wait(engine: Redis, messages: list[str], message: str) -> None:
    """Publish, and wait until it is received; the first several times, as the listener's connection may be new."""
    await engine.publish("t", message)
    await until(lambda: message in messages)


async def test_acknowledged_data_survives_a_kill(redis: Redis, server: RedisServer) -> None:
    version = await redis.put("a", b"1", version=None, ttl=60)
    await redis.write("a", {"f": "1"}, 60)
    assert await redis.claim("a", 60)
    server.kill()
    started = time.monotonic()
    for refused in (
        redis.get("a"),
        redis.read("a"),
        redis.put("a", b"2", version=version, ttl=60),
        redis.claim("b", 60),
        redis.publish("t", "m"),
    ):
        with pytest.raises(ConnectionError, match=f"{server.url} cannot be reached"):
            await refused
    assert time.monotonic() - started < 5 * DEFAULT_TIMEOUT
    server.start()
    assert await redis.get("a") == (b"1", version)
    assert await redis.read("a") == {"f": "1"}
    assert not await redis.claim("a", 60)


async def test_restart_is_logged_and_reported_as_a_gap(redis, other, server, caplog) -> None:
    listener = Listener(redis)
    messages = listener.messages
    await publish_and_wait(redis, messages, "before")
    server.kill()
    await until(lambda: "receives no messages of other processes until it does" in caplog.text)
    server.start()
    await wait_until_writable(other)
    await publish_and_wait(other, messages, "after")
    assert messages == ["before", "after"]
    assert caplog.text.count("Redis was restarted or replaced") == 1
    assert caplog.text.count("does not answer; this process receives no messages") == 1
    assert listener.missed == 1


async def test_emptied_database_is_a_gap(redis, server) -> None:
    listener = Listener(redis)
    await publish_and_wait(redis, listener.messages, "before")
    server.ask("FLUSHALL")
    await until(lambda: listener.missed == 1)
    await publish_and_wait(redis, listener.messages, "after")
    assert listener.messages == ["before", "after"]
    assert listener.missed == 1


async def test_pause_raises_timeout_and_loses_no_message(redis, other, server, caplog) -> None:
    listener = Listener(redis)
    messages = listener.messages
    await publish_and_wait(redis, messages, "before")
    server.pause()
    try:
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="did not answer within"):
            await redis.read("a")
        assert time.monotonic() - started < DEFAULT_TIMEOUT + 2
    finally:
        server.resume()
    await wait_until_writable(other)
    await publish_and_wait(other, messages, "after")
    assert messages == ["before", "after"]
    assert "missed" not in caplog.text
    assert listener.missed == 0


async def test_operation_with_a_lost_reply_runs_once(server: RedisServer, proxied: RedisProxy) -> None:
    messages: list[str] = []
    options = {"queue": "s/q", "owner": "ann", "max_open": 3, "max_open_per_owner": 3}
    with (
        closing(Redis(server.url, prefix="own:")) as direct,
        closing(Redis(proxied.url, prefix="own:")) as engine,
    ):
        direct.subscribe("t", messages.append)
        await publish_and_wait(direct, messages, "before")
        await engine.publish("t", "known")

        async def lose(operation: Any) -> Any:
            proxied.drops = 1
            result = await operation
            assert proxied.drops == 0
            return result

        assert await lose(engine.claim("a", 60)) is True
        version = await lose(engine.put("a", b"1", version=None, ttl=60))
        assert await direct.get("a") == (b"1", version)
        assert await lose(engine.delete("a", version=version)) is True
        await lose(engine.publish("t", "once"))
        for key in "ab":
            assert await lose(engine.add(key, b"0", **options)) == "added"
        assert await engine.add("a", b"1", **options) == "exists"
        taken = (await lose(engine.take(["s/q"], limit=1, lease=60))).jobs
        assert [(job.key, job.fence, job.value) for job in taken] == [("a", 1, b"0")]
        message = Message("t", "changed")
        change = engine.change("a", b"1", version=taken[0].version, fence=1, due=0, message=message)
        version = await lose(change)
        assert await direct.get_job("a") == ("a", b"1", version, 1)
        assert await lose(engine.change("a", b"2", version=version, ttl=60))
        for key in "cd":  # the ended job has left its place
            assert await engine.add(key, b"", **options) == "added"
        await publish_and_wait(direct, messages, "end")
        assert messages == ["before", "known", "once", "changed", "end"]


async def test_old_redis_version_is_refused(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.storage.redis_connection._OLDEST", (99, 0))
    for _ in range(2):
        with pytest.raises(OSError, match=r"runs Redis .*, but mcpkit needs 6\.2 or later"):
            await redis.read("a")


async def test_redis_cluster_is_refused(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "cluster", "--cluster-enabled", "yes") as cluster,
        closing(Redis(cluster.url)) as engine,
    ):
        for work in (engine.read("a"), engine.listening()):
            with pytest.raises(OSError, match="is a Redis cluster, which mcpkit does not support"):
                await work


async def publish_when_possible(engine: Redis, topic: str, text: str) -> None:
    """Publish as soon as that can be."""
    while True:
        with suppress(OSError):
            await engine.publish(topic, text)
            return


async def test_failover_with_lost_messages_is_a_gap(server, replica, proxied) -> None:
    messages: list[str] = []
    missed: list[int] = []
    engine, other = Redis(proxied.url), Redis(proxied.url)
    try:
        engine.subscribe("t", messages.append, lambda: missed.append(len(messages)))
        await engine.listening()
        for number in range(3):
            await other.publish("t", f"kept {number}")
        await until(lambda: replica.replicated() >= server.replicated())
        replica.ask("REPLICAOF", "NO", "ONE")  # what is written from now on is lost with the primary
        for number in range(2):
            await other.publish("t", f"lost {number}")
        await until(lambda: len(messages) == 5)
        with closing(Redis(replica.url)) as early:  # so that its log is longer than that of the primary
            for number in range(10):
                await early.publish("t", f"early {number}")
        assert not missed
        server.kill()
        proxied.upstream = replica.port
        await until(lambda: missed)
        await publish_when_possible(other, "t", "after")
        await until(lambda: "after" in messages)
        assert messages[-1] == "after"
        assert messages.count("after") == 1
    finally:
        for each in (engine, other):
            await asyncio.to_thread(each.close)


async def test_write_to_a_replica_is_refused(replica: RedisServer) -> None:
    with (
        closing(Redis(replica.url)) as engine,
        pytest.raises(OSError, match=r"returned an error: .*read only replica"),
    ):
        await engine.claim("a", 600)


@pytest.mark.limit("wait for a `Redis` that does not answer")
async def test_redis_without_response_gets_503_after_timeout(tmp_path, schema_dir: Path, monkeypatch) -> None:
    async def wait_for_answer(shared: Redis) -> None:
        for _ in range(100):
            with suppress(OSError):
                return await shared.erase("nothing")
        pytest.fail("Redis does not answer")

    with RedisServer(tmp_path / "redis") as redis, closing(Redis(redis.url)) as shared:
        await wait_for_answer(shared)
        async with serving(Server("s", storage=shared, secret_key="s" * 32), schema_dir) as client:
            redis.pause()
            try:
                with monkeypatch.context() as patch:
                    patch.setattr("mcpkit.storage.redis_connection.DEFAULT_TIMEOUT", 0.1)
                    assert (await client.post(initialize()).whole()).status == 503
            finally:
                redis.resume()
            await wait_for_answer(shared)
            await client.initialize()
