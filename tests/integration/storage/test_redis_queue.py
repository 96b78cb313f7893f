"""Jobs in Redis: round trips, commands sent twice, memory limits, lost writes and cut connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit.state.queue import Job, Message
from mcpkit.state.redis_link import Link
from mcpkit.storage import Redis
from tests.helpers.redis_server import RedisServer
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LINE = "s/task/a"


async def add(redis: Redis, key: str, value: bytes = b"", *, line: str = LINE, owner: str = "ann") -> str:
    return await redis.add(key, value, queue=line, owner=owner, max_open=1000, max_open_per_owner=1000)


async def take(redis: Redis, limit: int = 100, lease: float = 30) -> list[Job]:
    return (await redis.take([LINE], limit=limit, lease=lease)).jobs


async def test_each_method_takes_one_round_trip(redis: Redis, server: RedisServer) -> None:
    """The command that a client sends; what a script runs is no round trip."""

    async def sent(work: Awaitable[object]) -> dict[str, int]:
        before = server.calls()
        await work
        after = server.calls()
        return {
            name: after.get(name, 0) - before.get(name, 0)
            for name in ("evalsha", "eval", "script|load")
            if after.get(name, 0) != before.get(name, 0)
        }

    async def use() -> None:  # so that Redis knows the scripts
        await add(redis, "first")
        (job,) = await take(redis)
        await redis.renew({"first": (1, 30)})
        await redis.change("first", b"", version=job.version, fence=1, ttl=60)
        await redis.list_jobs("ann", server="s", after="", limit=10)
        await redis.list_queues("s")

    await use()
    for number in range(100):
        assert await sent(add(redis, str(number), b"v" * 1000)) == {"evalsha": 1}
    assert await sent(take(redis)) == {"evalsha": 1}
    assert await sent(take(redis)) == {"evalsha": 1}
    leases = {str(number): (1, 60.0) for number in range(100)}
    assert await sent(redis.renew(leases)) == {"evalsha": 1}
    assert await sent(redis.renew({})) == {}
    job = await redis.get_job("1")
    assert job is not None
    message = Message("s/tasks", "1")
    change = redis.change("1", b"2", version=job.version, fence=1, due=0, message=message)
    assert await sent(change) == {"evalsha": 1}
    assert await sent(redis.change("2", b"2", version="made up", ttl=60)) == {"evalsha": 1}
    assert await sent(redis.list_jobs("ann", server="s", after="", limit=100)) == {"evalsha": 1}
    assert await sent(redis.list_queues("s")) == {"evalsha": 1}
    before = server.calls()["hmget"]
    assert await sent(redis.get_job("1")) == {}
    assert server.calls()["hmget"] == before + 1


async def send_twice(redis: Redis, monkeypatch: pytest.MonkeyPatch, work: Awaitable[object]) -> object:
    """Do something whose every command is sent twice, and give what the second answer makes of it."""
    command = Link.command

    async def twice(link: Link, *args: bytes | str | int) -> object:
        await command(link, *args)
        return await command(link, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Link, "command", twice)
        return await work


async def test_command_sent_twice_runs_once(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    redis.subscribe("s/tasks", messages.append)
    await redis.listening()
    for number in range(3):
        assert await send_twice(redis, monkeypatch, add(redis, str(number), b"0")) == "added"
    assert await add(redis, "0", b"1") == "exists"
    taken = await send_twice(redis, monkeypatch, take(redis, limit=2))
    assert isinstance(taken, list)
    assert [(job.key, job.fence, job.value) for job in taken] == [("0", 1, b"0"), ("1", 1, b"0")]
    assert [(job.key, job.fence) for job in await take(redis)] == [("2", 1)]
    message = Message("s/tasks", "m")
    change = redis.change("0", b"1", version=taken[0].version, fence=1, due=0, message=message)
    version = await send_twice(redis, monkeypatch, change)
    assert isinstance(version, str)
    assert await redis.get_job("0") == ("0", b"1", version, 1)
    end = redis.change("0", b"2", version=version, ttl=60, message=message)
    assert await send_twice(redis, monkeypatch, end)
    for key in ("1", "2"):
        job = await redis.get_job(key)
        assert job is not None
        assert await send_twice(redis, monkeypatch, redis.change(key, b"", version=job.version, ttl=60))
    assert await redis.add("3", b"", queue=LINE, owner="ann", max_open=1, max_open_per_owner=1) == "added"
    await redis.publish("s/tasks", "end")
    await until(lambda: "end" in messages)
    assert messages == ["m", "m", "end"]


async def test_full_redis_refuses_new_jobs_and_keeps_existing_ones(redis: Redis, server: RedisServer) -> None:
    for key in ("a", "b", "c"):
        await add(redis, key, b"1")
    (first,) = await take(redis, limit=1)
    server.ask("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(OSError, match=r"returned an error: .*maxmemory"):
        await add(redis, "d")
    assert await redis.get_job("d") is None
    assert await redis.get_job("a") == first
    assert len(await redis.list_jobs("ann", server="s", after="", limit=10)) == 3
    assert [each.ready for each in await redis.list_queues("s")] == [2]
    assert await redis.renew({"a": (1, 60)}) == set(), "who works goes on having it"
    assert [job.key for job in await take(redis)] == ["b", "c"]
    with pytest.raises(OSError, match=r"returned an error: .*maxmemory"):
        await redis.change("a", b"done", version=first.version, fence=1, ttl=60)
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert await redis.change("a", b"done", version=first.version, fence=1, ttl=60)
    assert await add(redis, "d") == "added"
    assert [(each.ready, each.held) for each in await redis.list_queues("s")] == [(1, 2)]


# Failures


@pytest.fixture
def replica(server: RedisServer, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(server.port)) as started:
        yield started


async def test_fence_lost_with_a_primary_is_not_reused(
    redis: Redis, server: RedisServer, replica: RedisServer
) -> None:
    for key in ("taken twice", "taken", "new"):
        await add(redis, key)
    first = await take(redis, limit=1, lease=0.001)
    assert [job.fence for job in first] == [1]
    await until(lambda: replica.replicated() >= server.replicated())
    replica.ask("REPLICAOF", "NO", "ONE")  # what is written from now on is lost with the primary
    lost = {job.key: job for job in await take(redis)}
    assert sorted(job.fence for job in lost.values()) == [1, 1, 2]
    server.kill()
    with closing(Redis(replica.url, prefix="own:")) as after:
        assert await after.renew({key: (job.fence, 30) for key, job in lost.items()}) == set(lost)
        found = {job.key: job for job in await take(after, lease=0.001)}
        assert found.keys() == lost.keys()
        for key, job in found.items():
            assert job.fence > lost[key].fence
            assert job.version == lost[key].version
            late = after.change(key, b"late", version=job.version, fence=lost[key].fence, ttl=60)
            assert await late is None
        await asyncio.sleep(0.01)
        again = {job.key: job.fence for job in await take(after)}
        assert again == {key: job.fence + 1 for key, job in found.items()}
        assert await after.change("new", b"", version=found["new"].version, fence=again["new"], ttl=60)
