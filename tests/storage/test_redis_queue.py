"""The jobs at a Redis beyond the rules of all engines: what they cost, what is done once, and what it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import closing
from math import inf
from pathlib import Path

import pytest

from mcpkit import Redis
from mcpkit.state.queue import Job, Message
from mcpkit.state.redis_link import Link
from tests.helpers.redis_server import RedisServer
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

LINE = "s/task/a"
SHARD = b"own:q{0}:"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


@pytest.fixture
def queue(server: RedisServer) -> Iterator[Redis]:
    with closing(Redis(server.url, prefix="own:")) as made:
        yield made


async def add(queue: Redis, key: str, value: bytes = b"", *, line: str = LINE, owner: str = "ann") -> str:
    return await queue.add(key, value, queue=line, owner=owner, most=1000, most_of_owner=1000)


async def take(queue: Redis, most: int = 100, lease: float = 30) -> list[Job]:
    return (await queue.take([LINE], most=most, lease=lease)).jobs


@pytest.mark.slow
async def test_each_method_is_one_round_trip(queue: Redis, server: RedisServer) -> None:
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
        await add(queue, "first")
        (job,) = await take(queue)
        await queue.renew({"first": (1, 30)})
        await queue.change("first", b"", version=job.version, fence=1, keep=60)
        await queue.owned("ann", server="s", after="", most=10)
        await queue.waiting("s")

    await use()
    for number in range(100):
        assert await sent(add(queue, str(number), b"v" * 1000)) == {"evalsha": 1}
    assert await sent(take(queue)) == {"evalsha": 1}
    assert await sent(take(queue)) == {"evalsha": 1}
    leases = {str(number): (1, 60.0) for number in range(100)}
    assert await sent(queue.renew(leases)) == {"evalsha": 1}
    assert await sent(queue.renew({})) == {}
    job = await queue.look("1")
    assert job is not None
    message = Message("s/tasks", "1")
    change = queue.change("1", b"2", version=job.version, fence=1, due=0, message=message)
    assert await sent(change) == {"evalsha": 1}
    assert await sent(queue.change("2", b"2", version="made up", keep=60)) == {"evalsha": 1}
    assert await sent(queue.owned("ann", server="s", after="", most=100)) == {"evalsha": 1}
    assert await sent(queue.waiting("s")) == {"evalsha": 1}
    before = server.calls()["hmget"]
    assert await sent(queue.look("1")) == {}
    assert server.calls()["hmget"] == before + 1


async def test_nothing_is_left_of_what_has_expired(queue: Redis, server: RedisServer) -> None:
    for number in range(30):
        await add(queue, str(number), owner=f"{number % 3}", line=f"{LINE}{number % 2}")
        job = await queue.look(str(number))
        assert job is not None
        assert await queue.change(str(number), b"", version=job.version, keep=0.001)
    assert await queue.owned("0", server="s", after="", most=10) == []

    def keys() -> set[bytes]:
        found: list[bytes] = server.ask("KEYS", SHARD + b"*")
        return {each[len(SHARD) :] for each in found}

    await until(lambda: not any(each.startswith(b"j:") for each in keys()))
    assert keys() <= {each + whose for each in (b"w:", b"x:") for whose in (b"s/0", b"s/1", b"s/2")}
    for key in keys():
        assert 0 < server.ask("PTTL", SHARD + key) <= 61_000, "they expire where their owner never comes back"
    await add(queue, "back", owner="1")
    assert server.ask("PTTL", SHARD + b"w:s/1") == -1
    assert server.ask("ZRANGE", SHARD + b"w:s/1", 0, -1)[-1:] == [b"back"]


async def test_what_is_open_never_expires_at_redis(queue: Redis, server: RedisServer) -> None:
    await add(queue, "a")
    (job,) = await take(queue)
    version = await queue.change("a", b"", version=job.version, due=inf)
    assert version is not None
    found: list[bytes] = server.ask("KEYS", SHARD + b"*")
    assert found
    assert {server.ask("PTTL", key) for key in found if b":o:" not in key} == {-1}


async def resent(queue: Redis, monkeypatch: pytest.MonkeyPatch, work: Awaitable[object]) -> object:
    """Do something whose every command is sent twice, and give what the second answer makes of it."""
    command = Link.command

    async def twice(link: Link, *args: bytes | str | int) -> object:
        await command(link, *args)
        return await command(link, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Link, "command", twice)
        return await work


async def test_what_is_sent_again_is_done_once(queue: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    queue.subscribe("s/tasks", heard.append)
    await queue.listening()
    for number in range(3):
        assert await resent(queue, monkeypatch, add(queue, str(number), b"0")) == "added"
    assert await add(queue, "0", b"1") == "exists"
    taken = await resent(queue, monkeypatch, take(queue, most=2))
    assert isinstance(taken, list)
    assert [(job.key, job.fence, job.value) for job in taken] == [("0", 1, b"0"), ("1", 1, b"0")]
    assert [(job.key, job.fence) for job in await take(queue)] == [("2", 1)]
    message = Message("s/tasks", "m")
    change = queue.change("0", b"1", version=taken[0].version, fence=1, due=0, message=message)
    version = await resent(queue, monkeypatch, change)
    assert isinstance(version, str)
    assert await queue.look("0") == ("0", b"1", version, 1)
    end = queue.change("0", b"2", version=version, keep=60, message=message)
    assert await resent(queue, monkeypatch, end)
    for key in ("1", "2"):
        job = await queue.look(key)
        assert job is not None
        assert await resent(queue, monkeypatch, queue.change(key, b"", version=job.version, keep=60))
    assert await queue.add("3", b"", queue=LINE, owner="ann", most=1, most_of_owner=1) == "added"
    await queue.publish("s/tasks", "end")
    await until(lambda: "end" in heard)
    assert heard == ["m", "m", "end"]


async def test_a_change_that_others_have_built_on_is_still_told_to_be_made(
    queue: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was lost, somebody else has changed the job since, and then it is sent again."""
    await add(queue, "a", b"0")
    seen = await queue.look("a")
    assert seen is not None
    command = Link.command
    sent: list[tuple[bytes | str | int, ...]] = []

    async def keep(link: Link, *args: bytes | str | int) -> object:
        sent.append(args)
        return await command(link, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Link, "command", keep)
        version = await queue.change("a", b"1", version=seen.version)
    assert version is not None
    assert await queue.change("a", b"2", version=version)
    link, _ = queue._opened()
    assert await link.run(link.command(*sent[-1])) == [b"1", b""]
    job = await queue.look("a")
    assert job is not None
    assert job.value == b"2"


async def test_a_full_redis_takes_no_more_jobs_and_keeps_those_that_it_has(
    queue: Redis, server: RedisServer
) -> None:
    for key in ("a", "b", "c"):
        await add(queue, key, b"1")
    (first,) = await take(queue, most=1)
    server.ask("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(OSError, match=r"refuses: .*maxmemory"):
        await add(queue, "d")
    assert await queue.look("d") is None
    assert await queue.look("a") == first
    assert len(await queue.owned("ann", server="s", after="", most=10)) == 3
    assert [each.ready for each in await queue.waiting("s")] == [2]
    assert await queue.renew({"a": (1, 60)}) == set(), "who works goes on having it"
    assert [job.key for job in await take(queue)] == ["b", "c"]
    with pytest.raises(OSError, match=r"refuses: .*maxmemory"):
        await queue.change("a", b"done", version=first.version, fence=1, keep=60)
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert await queue.change("a", b"done", version=first.version, fence=1, keep=60)
    assert await add(queue, "d") == "added"
    assert [(each.ready, each.held) for each in await queue.waiting("s")] == [(1, 2)]


async def test_a_user_that_may_not_ask_for_the_run_still_takes_jobs(server: RedisServer) -> None:
    server.ask("ACL", "SETUSER", "small", "on", ">word", "~*", "+@all", "-info")
    with closing(Redis(server.url.replace("//", "//small:word@"), prefix="own:")) as queue:
        await add(queue, "a")
        for fence in (1, 2):
            (job,) = await take(queue, lease=0.001)
            assert job.fence == fence
            await asyncio.sleep(0.01)
