"""The Redis engine: its URL, access rights, round trips, retries, warnings and queue."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit.state.queue import Job, Message
from mcpkit.state.redis_link import Link
from mcpkit.state.redis_log import LONG
from mcpkit.storage import Redis
from tests.helpers.redis_server import RedisServer, free_port
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')

# URL and access


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "redis://localhost:6379/0"),
        ("redis://user:hushhush@db.example:7000/3", "redis://db.example:7000/3"),
        ("rediss://:hush%2Fhush@db.example/?db=2", "rediss://db.example:6379/2"),
        ("redis://user:hushhush@[::1]:7000", "redis://[::1]:7000/0"),
        ("unix://user:hushhush@/run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
    ],
)
def test_repr_and_home_hide_credentials(url: str, shown: str) -> None:
    engine = Redis(url)
    assert repr(engine) == f"Redis({shown!r})"
    assert re.fullmatch("[0-9a-f]{32}", engine.store_id)
    assert engine.store_id == Redis(re.sub("//.*@", "//other:words@", url)).store_id
    assert engine.store_id != Redis(url, prefix="other:").store_id


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hushhush",
        "http://user:hushhush@host",
        "redis://user:hushhush@",
        "redis://user:hush/hush@host",
        "redis://user:hush#hush@host",
        "redis://host/hushhush",
        "redis://host?password=hushhush",
    ],
)
def test_invalid_url_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="the Redis URL") as error:
        Redis(url)
    assert "hush" not in str(error.value)
    assert error.value.__cause__ is None


async def test_documented_acl_suffices(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "redis.md"
    rules_match = re.search(r"ACL SETUSER mcpkit on >PASSWORD (.*?)\n```", page.read_text(), re.DOTALL)
    assert rules_match is not None
    rules = rules_match[1].split()
    server.ask("ACL", "SETUSER", "small", "on", ">word", *rules)
    messages: list[str] = []
    with closing(Redis(server.url.replace("//", "//small:word@"))) as engine:
        engine.subscribe("t", messages.append)
        await engine.publish("t", "m")
        await until(lambda: messages == ["m"])
        await engine.write("a", {"f": "1", "g": None}, 60)
        assert await engine.read("a") == {"f": "1"}
        await engine.erase("a")
        assert await engine.claim("a", 60)
        version = await engine.put("a", b"1", version=None, ttl=60)
        assert await engine.get("a") == (b"1", version)
        assert [key async for key, _ in engine.items("")] == ["a"]
        assert await engine.delete("a", version=version or "")
        assert await engine.take_tokens("a", every=1, burst=1) == 0
        for key in ("a", "b"):
            added = await engine.add(key, b"1", queue="s/q", owner="ann", max_open=9, max_open_per_owner=9)
            assert added == "added"
        taken = await engine.take(["s/q"], limit=9, lease=60)
        assert await engine.renew({job.key: (1, 60) for job in taken.jobs}) == set()
        for job, keep in zip(taken.jobs, (None, 60), strict=True):
            assert await engine.change(job.key, b"2", version=job.version, fence=1, due=0, ttl=keep)
        assert len(await engine.list_jobs("ann", server="s", after="b", limit=9)) == 1
        assert [each.ready for each in await engine.list_queues("s")] == [1]
        (left,) = (await engine.take(["s/q"], limit=9, lease=60)).jobs
        assert await engine.change(left.key, b"3", version=left.version, ttl=60)
        with pytest.raises(PermissionError):
            await engine._opened()[0].run(engine._opened()[0].command("FLUSHALL"))
    assert caplog.text == ""
    used = {name for name, calls in server.calls().items() if calls} - {"config", "acl|setuser", "ping"}
    unused = {rule[1:] for rule in rules if rule.startswith("+")} - {name.split("|")[0] for name in used}
    assert unused <= {"select", "persist"}


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (("--maxmemory-policy", "noeviction"), None),
        (("--maxmemory-policy", "allkeys-lru"), "maxmemory-policy allkeys-lru"),
        (("--appendonly", "no"), "has appendonly no"),
    ],
)
async def test_redis_that_may_lose_data_is_logged_once(
    options: tuple[str, ...], warning: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(tmp_path / "redis", *options) as server, closing(Redis(server.url)) as redis:
        await asyncio.gather(*(redis.claim(str(number), 60) for number in range(10)))
    assert len(caplog.records) == (warning is not None)
    assert warning is None or warning in caplog.text


# Round trips


async def count_commands(server: RedisServer, work: Any) -> dict[str, int]:
    """Return which commands clients have sent meanwhile, those apart that scripts run and that wait for messages."""
    inner = {"get", "set", "hset", "hget", "hdel", "pexpire", "exists", "xadd", "xinfo|stream", "time", "del"}
    inner |= {"zadd", "zrem", "zrangebyscore", "zrangebylex", "client", "client|setinfo", "xinfo"}
    before = server.calls()
    await work
    after = server.calls()
    found = {name: count - before.get(name, 0) for name, count in after.items() if name not in inner}
    return {name: count for name, count in found.items() if count and name not in {"info", "xread"}}


async def test_each_operation_takes_one_round_trip(redis: Redis, server: RedisServer) -> None:
    messages: list[str] = []
    redis.subscribe("t", messages.append)
    for _ in range(2):  # the scripts are known the second time
        version = await redis.put("a", b"1", version=None, ttl=60)
        await redis.write("a", {"f": "1", "g": None}, 60)
        await redis.claim("first", 60)
        await redis.publish("t", "m")
        await redis.erase("b")
        await redis.delete("a", version=version or "")
    for work in (
        redis.put("a", b"1", version=None, ttl=60),
        redis.write("a", {"f": "2", "h": None}, 60),
        redis.write("a", {}, 60),
        redis.erase("a"),
        redis.claim("second", 60),
        redis.publish("t", "m"),
        redis.delete("a", version="none"),
    ):
        assert await count_commands(server, work) == {"evalsha": 1}
    assert await count_commands(server, redis.read("a")) == {"hgetall": 1}
    assert await count_commands(server, redis.get("a")) == {"hmget": 1}
    assert await count_commands(server, redis.listening()) == {}
    await until(lambda: len(messages) == 3)


async def test_long_messages_are_stored_outside_the_log(redis: Redis, server: RedisServer) -> None:
    messages: list[str] = []
    redis.subscribe("t", messages.append)
    published = ["a" * (LONG + 1), "b", "c" * 1_000_000]
    for message in published:
        await redis.publish("t", message)
    await until(lambda: len(messages) == 3)
    assert messages == published
    assert server.ask("MEMORY", "USAGE", "own:log") < 10_000
    assert all(0 < server.ask("PTTL", key) <= 30_000 for key in server.ask("KEYS", "own:m:*"))


async def test_wrong_password_is_refused_without_being_quoted(tmp_path: Path) -> None:
    started = RedisServer(tmp_path / "redis", "--requirepass", "hushhush")
    started.password = "hushhush"
    with started:
        with closing(Redis(started.url.replace("//", "//:hushhush@"))) as trusted:
            assert await trusted.claim("a", 60)
        with (
            closing(Redis(started.url.replace("//", "//default:wrongwrong@"))) as stranger,
            pytest.raises(PermissionError, match="rejected the user name or password") as error,
        ):
            await stranger.claim("b", 60)
        with (
            closing(Redis(started.url)) as anonymous,
            pytest.raises(OSError, match="or the URL has none") as anonymous_error,
        ):
            await anonymous.claim("b", 60)
    for each in (error.value, anonymous_error.value):
        assert "wrongwrong" not in repr(each)
        assert each.__cause__ is None


async def test_tls_requires_a_trusted_certificate(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    certificate, key = authority.certificate("localhost")
    port = free_port()
    options = ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate)]
    options += ["--tls-key-file", str(key), "--tls-ca-cert-file", str(authority.file)]
    with RedisServer(tmp_path / "redis", *options):
        messages: list[str] = []
        url = f"rediss://localhost:{port}"
        with closing(Redis(f"{url}?ssl_ca_certs={authority.file}")) as trusted:
            trusted.subscribe("t", messages.append)
            await trusted.publish("t", "m")
            await until(lambda: messages == ["m"])
        with closing(Redis(url)) as untrusted, pytest.raises(ConnectionError, match="cannot be reached"):
            await untrusted.read("a")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "redis://h/0?ssl_cert_reqs=none",
            "is for TLS, which redis:// does not use. Leave it out, or write rediss://",
        ),
        ("rediss://h/0?ssl_cert_req=none", "does not know the option ssl_cert_req in .*Write ssl_cert_reqs"),
        (
            "rediss://h/0?ssl_min_version=TLSv1.2",
            "rejects the value of the option ssl_min_version .*771 for TLS 1.2",
        ),
        (
            "rediss://h/0?ssl_cert_reqs=no",
            "rejects the value of the option ssl_cert_reqs .*none, optional or required",
        ),
        (
            "rediss://h/0?ssl_check_hostname=off",
            "rejects the value of the option ssl_check_hostname .*true or false",
        ),
        ("rediss://h/0?ssl_ca_certs=", "the option ssl_ca_certs in the Redis URL has no value"),
        ("redis://h?db=1&db=2", "has the option db twice"),
    ],
)
def test_refused_url_option_is_named_with_a_remedy(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Redis(url)


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
