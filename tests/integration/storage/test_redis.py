"""The Redis engine: its URL, access rights, round trips, retries, warnings and queue."""

import asyncio
import re
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit.storage import Redis
from mcpkit.storage.jobs_and_heartbeats import Job, Message
from mcpkit.storage.redis_connection import LONG
from tests.helpers.redis_server import RedisServer, free_port
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.tables import each_row
from tests.helpers.waiting import until
from tests.storage.test_broker import *  # noqa: F403  # the contract of every engine
from tests.storage.test_queue import *  # noqa: F403

pytestmark = pytest.mark.slow

pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')

# URL and access


@pytest.mark.parametrize(("url", "shown"), [
    ("redis://localhost", "redis://localhost:6379/0"),
    ("redis://user:hushhush@db.example:7000/3", "redis://db.example:7000/3"),
    ("rediss://:hush%2Fhush@db.example/?db=2", "rediss://db.example:6379/2"),
    ("redis://user:hushhush@[::1]:7000", "redis://[::1]:7000/0"),
    ("unix://user:hushhush@/run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
])  # fmt: skip
def test_repr_and_home_hide_credentials(url: str, shown: str) -> None:
    engine = Redis(url)
    assert repr(engine) == f"Redis({shown!r})"
    assert re.fullmatch("[0-9a-f]{32}", engine.store_id)
    assert engine.store_id == Redis(re.sub("//.*@", "//other:words@", url)).store_id
    assert engine.store_id != Redis(url, prefix="other:").store_id


@each_row("url", [
    *(
        "", "hushhush", "http://user:hushhush@host", "redis://user:hushhush@",
        "redis://user:hush/hush@host",
    ),
    *("redis://user:hush#hush@host", "redis://host/hushhush", "redis://host?password=hushhush"),
])  # fmt: skip
def test_invalid_url_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="the Redis URL") as error:
        Redis(url)
    assert "hush" not in str(error.value)
    assert error.value.__cause__ is None


@each_row(("url", "message"), [
    (
        "redis://h/0?ssl_cert_reqs=none",
        "is for TLS, which redis:// does not use. Leave it out, or write red",
    ),
    ("rediss://h/0?ssl_cert_req=none", "does not know the option ssl_cert_req in .*Write ssl_cert_reqs"),
    (
        "rediss://h/0?ssl_min_version=TLSv1.2",
        "rejects the value of the option ssl_min_version .*771 for TLS 1.2",
    ),
    (
        "rediss://h/0?ssl_cert_reqs=no",
        "the value of the option ssl_cert_reqs .*none, optional or required",
    ),
    ("rediss://h/0?ssl_check_hostname=off", "the value of the option ssl_check_hostname .*true or false"),
    ("rediss://h/0?ssl_ca_certs=", "the option ssl_ca_certs in the Redis URL has no value"),
    ("redis://h?db=1&db=2", "has the option db twice"),
])  # fmt: skip
def test_refused_url_option_is_named_with_a_remedy(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Redis(url)


async def test_documented_acl_suffices(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    page = Path(__file__).parents[3] / "docs" / "guides" / "redis.md"
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
            await engine._client.command("FLUSHALL")
    assert caplog.text == ""
    used = {name for name, calls in server.calls().items() if calls} - {"config", "acl|setuser", "ping"}
    unused = {rule[1:] for rule in rules if rule.startswith("+")} - {name.split("|")[0] for name in used}
    assert unused <= {"select", "persist"}


@pytest.mark.parametrize(("options", "warning"), [
    (("--maxmemory-policy", "noeviction"), None),
    (("--maxmemory-policy", "allkeys-lru"), "maxmemory-policy allkeys-lru"),
    (("--appendonly", "no"), "has appendonly no"),
])  # fmt: skip
async def test_redis_that_may_lose_data_is_logged_once(options, warning, tmp_path, caplog) -> None:
    with RedisServer(tmp_path / "redis", *options) as server, closing(Redis(server.url)) as redis:
        await asyncio.gather(*(redis.claim(str(number), 60) for number in range(10)))
    assert len(caplog.records) == (warning is not None)
    assert warning is None or warning in caplog.text


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


async def test_messages_before_a_subscription_are_not_received(redis: Redis, server: RedisServer) -> None:
    with closing(Redis(server.url, prefix="own:")) as other:
        await other.publish("t", "before the connection")
        received: list[str] = []
        redis.subscribe("t", received.append)
        await redis.listening()
        for reader in re.findall(r"id=(\d+) .* cmd=xread ", server.ask("CLIENT", "LIST").decode()):
            server.ask("CLIENT", "KILL", "ID", reader)  # it reconnects later, and reads "before" then
        await redis.publish("t", "before")
        late: list[str] = []
        redis.subscribe("t", late.append)
        await other.publish("t", "after")
        await until(lambda: late[-1:] == ["after"])
    assert (received, late) == (["before", "after"], ["after"])


async def test_wrong_password_is_refused_without_being_quoted(tmp_path: Path) -> None:
    started = RedisServer(tmp_path / "redis", "--requirepass", "hushhush")
    started.password = "hushhush"
    with started:
        with closing(Redis(started.url.replace("//", "//:hushhush@"))) as trusted:
            assert await trusted.claim("a", 60)
        for user, message in (("default:wrongwrong@", "rejected the user name"), ("", "or the URL has none")):
            engine = Redis(started.url.replace("//", f"//{user}"))
            with closing(engine), pytest.raises(PermissionError, match=message) as error:
                await engine.claim("b", 60)
            assert "wrongwrong" not in repr(error.value)
            assert error.value.__cause__ is None


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


LINE = "s/task/a"


async def add(redis: Redis, key: str, value: bytes = b"", *, line: str = LINE, owner: str = "ann") -> str:
    return await redis.add(key, value, queue=line, owner=owner, max_open=1000, max_open_per_owner=1000)


async def take(redis: Redis, limit: int = 100, lease: float = 30) -> list[Job]:
    return (await redis.take([LINE], limit=limit, lease=lease)).jobs


async def test_each_operation_takes_one_round_trip(redis: Redis, server: RedisServer) -> None:
    messages: list[str] = []
    redis.subscribe("t", messages.append)
    await redis.listening()
    leases = {str(number): (1, 60.0) for number in range(100)}
    message = Message("s/tasks", "1")

    async def scripts() -> None:
        for number in range(100):
            await expect("evalsha", add(redis, str(number), b"v" * 1000))
        (job, *_) = (await redis.take([LINE], limit=1, lease=30)).jobs
        for work in (
            redis.put("a", b"1", version=None, ttl=60),
            redis.write("a", {"f": "2", "h": None}, 60),
            redis.write("a", {}, 60),
            redis.erase("b"),
            redis.claim("c", 60),
            redis.publish("t", "m"),
            redis.delete("a", version="none"),
            take(redis),
            redis.renew(leases),
            redis.change(job.key, b"2", version=job.version, fence=1, due=0, message=message),
            redis.change("2", b"2", version="made up", ttl=60),
            redis.list_jobs("ann", server="s", after="", limit=100),
            redis.list_queues("s"),
        ):
            await expect("evalsha", work)

    async def expect(command: str, work: Awaitable[object]) -> None:
        """Expect one command of a client; commands that scripts run are not counted."""
        names = {"evalsha", "eval", "script|load", command}
        before = server.calls() if is_counting else {}
        await work
        after = server.calls() if is_counting else {command: 1}
        counts = {name: after.get(name, 0) - before.get(name, 0) for name in names}
        assert {name: count for name, count in counts.items() if count} == {command: 1}

    is_counting = False
    await scripts()  # afterwards Redis knows the scripts
    server.ask("FLUSHDB")
    is_counting = True
    await scripts()
    await expect("hgetall", redis.read("a"))
    await expect("hmget", redis.get("a"))
    await expect("hmget", redis.get_job("1"))
    before = server.calls()["evalsha"]
    await redis.renew({})
    await redis.listening()
    assert server.calls()["evalsha"] == before


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
    assert await redis.renew({"a": (1, 60)}) == set()
    assert [job.key for job in await take(redis)] == ["b", "c"]
    with pytest.raises(OSError, match=r"returned an error: .*maxmemory"):
        await redis.change("a", b"done", version=first.version, fence=1, ttl=60)
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert await redis.change("a", b"done", version=first.version, fence=1, ttl=60)
    assert await add(redis, "d") == "added"
    assert [(each.ready, each.held) for each in await redis.list_queues("s")] == [(1, 2)]


async def test_fence_lost_with_a_primary_is_not_reused(redis, server, replica) -> None:
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
