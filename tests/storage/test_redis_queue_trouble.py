"""Jobs at a Redis that is killed, cut off, emptied or replaced: one taker, one end, and no fence comes again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mcpkit import Redis
from mcpkit.state.queue import Job, Message, Waiting
from tests.helpers.redis_server import LossyProxy, RedisServer
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

LINE = "s/task/a"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    options = ("--appendfsync", "always", "--repl-diskless-sync-delay", "0")
    with RedisServer(tmp_path / "redis", *options) as started:
        yield started


@pytest.fixture
def queue(server: RedisServer) -> Iterator[Redis]:
    with closing(Redis(server.url, prefix="own:")) as made:
        yield made


async def add(queue: Redis, key: str, value: bytes = b"", *, most: int = 10_000) -> str:
    return await queue.add(key, value, queue=LINE, owner="ann", most=most, most_of_owner=most)


async def take(queue: Redis, most: int = 100, lease: float = 30) -> list[Job]:
    return (await queue.take([LINE], most=most, lease=lease)).jobs


async def take_one(queue: Redis, lease: float = 30) -> Job:
    (job,) = await take(queue, lease=lease)
    return job


# Writes that are lost, and fences with them


@pytest.fixture
def replica(server: RedisServer, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(server.port)) as started:
        yield started


async def test_a_fence_that_was_lost_with_a_primary_never_comes_again(
    queue: Redis, server: RedisServer, replica: RedisServer
) -> None:
    for key in ("taken twice", "taken", "new"):
        await add(queue, key)
    known = await take(queue, most=1, lease=0.001)
    assert [job.fence for job in known] == [1]
    await until(lambda: replica.replicated() >= server.replicated())
    replica.ask("REPLICAOF", "NO", "ONE")  # what is written from now on is lost with the primary
    lost = {job.key: job for job in await take(queue)}
    assert sorted(job.fence for job in lost.values()) == [1, 1, 2]
    server.kill()
    with closing(Redis(replica.url, prefix="own:")) as after:
        assert await after.renew({key: (job.fence, 30) for key, job in lost.items()}) == set(lost)
        found = {job.key: job for job in await take(after, lease=0.001)}
        assert found.keys() == lost.keys()
        for key, job in found.items():
            assert job.fence > lost[key].fence
            assert job.version == lost[key].version
            late = after.change(key, b"late", version=job.version, fence=lost[key].fence, keep=60)
            assert await late is None
        await asyncio.sleep(0.01)
        again = {job.key: job.fence for job in await take(after)}
        assert again == {key: job.fence + 1 for key, job in found.items()}
        assert await after.change("new", b"", version=found["new"].version, fence=again["new"], keep=60)


async def test_a_job_that_is_made_later_is_counted_from_one(queue: Redis, server: RedisServer) -> None:
    await add(queue, "before")
    server.kill()
    server.start()
    await add(queue, "after")
    fences = {job.key: job.fence for job in await take(queue)}
    assert fences["after"] == 1
    assert fences["before"] > 1_000_000_000_000


# Ended and started again


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["always", "everysec"])
async def test_what_was_acknowledged_survives_kills(sync: str, tmp_path: Path) -> None:
    """With `everysec`, what was written while the disk was busy may be lost; what is left agrees with itself, then."""
    ended: dict[str, bytes] = {}
    with (
        RedisServer(tmp_path / "redis", "--appendfsync", sync) as server,
        closing(Redis(server.url)) as queue,
    ):
        for turn in range(3):
            for number in range(20):
                assert await add(queue, f"{turn}/{number}", b"%d" % number) == "added"
            for job in await take(queue, most=10):
                value = job.value + b" ended"
                if await queue.change(job.key, value, version=job.version, fence=job.fence, keep=600):
                    ended[job.key] = value
            server.kill()
            server.start()
        owned = {job.key: job for job in await queue.owned("ann", server="s", after="", most=100)}
        over = {key for key, job in owned.items() if job.value.endswith(b"ended")}
        if sync == "always":
            assert len(owned) == 60
            assert {key: owned[key].value for key in over} == ended
        for key in over:
            assert await queue.change(key, b"again", version=owned[key].version) is None
        (waiting,) = await queue.waiting("s")
        is_open = len(owned) - len(over)
        assert waiting.ready + waiting.held == is_open
        assert await add(queue, "one more", most=is_open) == "full"
        assert await add(queue, "one more", most=is_open + 1) == "added"


async def test_a_redis_that_was_emptied_has_room_for_all(queue: Redis, server: RedisServer) -> None:
    await add(queue, "a")
    job = await take_one(queue)
    server.ask("FLUSHALL")
    assert await queue.look("a") is None
    assert await queue.renew({"a": (1, 30)}) == {"a"}
    assert await queue.change("a", b"late", version=job.version, fence=1) is None
    assert await queue.waiting("s") == []
    assert await add(queue, "b", most=1) == "added"
    assert await queue.waiting("s") == [Waiting(LINE, 1, 0, pytest.approx(0, abs=1))]


# Connections


@pytest.fixture
async def through(server: RedisServer) -> AsyncIterator[tuple[Redis, LossyProxy]]:
    """A queue whose replies can be lost."""
    between = LossyProxy(server.port, is_cut=True)
    listening, port = await between.start()
    engine = Redis(f"redis://127.0.0.1:{port}", prefix="own:")
    yield engine, between
    await asyncio.to_thread(engine.close)
    listening.close()
    await listening.wait_closed()


@pytest.mark.slow
async def test_what_was_done_is_done_once_where_its_reply_got_lost(
    queue: Redis, through: tuple[Redis, LossyProxy]
) -> None:
    lossy, between = through
    heard: list[str] = []
    queue.subscribe("s/tasks", heard.append)
    await queue.listening()
    await lossy.listening()
    await lossy.look("a")

    for number in range(10):
        between.drops_next_reply = True
        assert await add(lossy, str(number), b"0") == "added"
        between.drops_next_reply = True
        job = await take_one(lossy)
        assert (job.key, job.fence) == (str(number), 1)
        between.drops_next_reply = True
        message = Message("s/tasks", str(number))
        version = await lossy.change(job.key, b"1", version=job.version, fence=1, message=message)
        assert version is not None
        between.drops_next_reply = True
        assert await lossy.renew({job.key: (1, 30)}) == set()
        between.drops_next_reply = True
        assert await lossy.change(job.key, b"2", version=version, fence=1, keep=60)
    assert between.dropped_replies == 50
    await queue.publish("s/tasks", "end")
    await until(lambda: "end" in heard)
    assert heard == [*map(str, range(10)), "end"]
    assert await queue.waiting("s") == []
    assert await add(queue, "one more", most=1) == "added"


@pytest.mark.slow
async def test_each_job_is_ended_once_while_connections_are_cut(queue: Redis, server: RedisServer) -> None:
    jobs, ends = 150, Counter[str]()
    is_over = False

    async def cut() -> None:
        while not is_over:
            await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "normal")
            await asyncio.sleep(0.1)

    async def make() -> None:
        for number in range(jobs):
            while True:
                with suppress(OSError):
                    assert await add(queue, str(number)) in {"added", "exists"}
                    break

    async def work(own: Redis) -> None:
        while sum(ends.values()) < jobs:
            with suppress(OSError):
                for job in await take(own, most=4, lease=5):
                    if await own.change(job.key, b"ended", version=job.version, fence=job.fence, keep=600):
                        ends[job.key] += 1

    cutter = asyncio.create_task(cut())
    try:
        with closing(Redis(server.url, prefix="own:")) as second:
            await asyncio.wait_for(asyncio.gather(make(), work(queue), work(second)), 60)
    finally:
        is_over = True
        await cutter
    assert ends == Counter(map(str, range(jobs)))
    assert await queue.waiting("s") == []
    assert await add(queue, "one more", most=1) == "added"


@pytest.mark.slow
async def test_a_redis_that_is_paused_is_said_and_jobs_go_on_then(queue: Redis, server: RedisServer) -> None:
    await add(queue, "a")
    server.pause()
    try:
        with pytest.raises(TimeoutError, match="does not answer within"):
            await take(queue)
    finally:
        server.resume()
    taken: list[Job] = []
    while not taken:
        with suppress(OSError):
            taken = await take(queue, lease=30) or [job] if (job := await queue.look("a")) else []
    assert taken[0].key == "a"
