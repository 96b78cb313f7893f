"""The Redis engine: its URL, access rights, round trips, retries and warnings."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit.state.redis_log import LONG
from mcpkit.storage import Redis
from tests.helpers.redis_server import RedisServer, free_port
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.waiting import until

pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

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
