"""A `Redis` beyond the rules of all engines: its URL, its processes, what it costs, and what it is set to."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Redis, Server
from mcpkit.state.redis_log import LONG
from mcpkit.state.redis_scripts import CLAIM, DELETE, ERASE, PUBLISH, PUT, WRITE
from mcpkit.testing import connect
from tests.helpers.certificates import Authority
from tests.helpers.redis_server import RedisServer, common_server, free_port
from tests.helpers.waiting import until

pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')
pytestmark = pytest.mark.anyio

PREFIX = "own:"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


@pytest.fixture
def shared(server: RedisServer) -> Iterator[Redis]:
    with closing(Redis(server.url, prefix=PREFIX)) as made:
        yield made


# The URL


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
def test_credentials_are_in_no_repr_and_no_home(url: str, shown: str) -> None:
    engine = Redis(url)
    assert repr(engine) == f"Redis({shown!r})"
    assert re.fullmatch("[0-9a-f]{32}", engine.home)
    assert engine.home == Redis(re.sub("//.*@", "//other:words@", url)).home
    assert engine.home != Redis(url, prefix="other:").home


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hushhush",
        "http://user:hushhush@host",
        "redis://user:hushhush@",
        "redis://user:hush/hush@host",
        "redis://user:hush#hush@host",
        "redis://user:hush?hush@host",
        "redis://:12?hushhush",
        "redis://:12/hushhush@host",
        "redis://host/hushhush",
        "redis://host?password=hushhush",
        "redis://host?decode_responses=hushhush",
    ],
)
def test_what_is_no_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="the URL of a Redis") as caught:
        Redis(url)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("options", [{"url": 5}, {"url": "redis://host", "prefix": b"a"}])
def test_url_and_prefix_are_text(options: Any) -> None:
    with pytest.raises(TypeError, match="must be text"):
        Redis(**options)


async def test_a_password_is_used_and_a_wrong_one_is_said_without_it(tmp_path: Path) -> None:
    started = RedisServer(tmp_path / "redis", "--requirepass", "hushhush")
    started.password = "hushhush"
    with started:
        with closing(Redis(started.url.replace("//", "//:hushhush@"))) as known:
            assert await known.claim("a", 60)
        with (
            closing(Redis(started.url.replace("//", "//default:wrongwrong@"))) as stranger,
            pytest.raises(PermissionError, match="refuses the user or the password") as caught,
        ):
            await stranger.claim("b", 60)
        with closing(Redis(started.url)) as nobody, pytest.raises(OSError, match="refuse") as unnamed:
            await nobody.claim("b", 60)
    for said in (caught.value, unnamed.value):
        assert "wrongwrong" not in repr(said)
        assert said.__cause__ is None


@pytest.mark.slow
async def test_tls_is_spoken_and_a_stranger_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.certificate("localhost")
    port = free_port()
    options = ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate)]
    options += ["--tls-key-file", str(key), "--tls-ca-cert-file", str(authority.file)]
    with RedisServer(tmp_path / "redis", *options):
        heard: list[str] = []
        url = f"rediss://localhost:{port}"
        with closing(Redis(f"{url}?ssl_ca_certs={authority.file}")) as known:
            known.subscribe("t", heard.append)
            await known.publish("t", "m")
            await until(lambda: heard == ["m"])
        with closing(Redis(url)) as stranger, pytest.raises(ConnectionError, match="cannot be reached"):
            await stranger.read("a")


async def test_a_user_that_must_not_is_told_so_without_its_name(server: RedisServer) -> None:
    server.ask("ACL", "SETUSER", "hushhush", "on", ">word", "~*", "+@all", "-evalsha", "-eval", "-info")
    with closing(Redis(server.url.replace("//", "//hushhush:word@"))) as engine:
        assert await engine.read("a") == {}
        with pytest.raises(PermissionError, match="does not let its user do") as caught:
            await engine.claim("a", 60)
    assert "hushhush" not in str(caught.value)


async def test_a_user_needs_no_more_than_the_page_says(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "redis.md"
    said = re.search(r"ACL SETUSER mcpkit on >PASSWORD (.*?)\n```", page.read_text(), re.DOTALL)
    assert said is not None
    rules = said[1].split()
    server.ask("ACL", "SETUSER", "small", "on", ">word", *rules)
    heard: list[str] = []
    with closing(Redis(server.url.replace("//", "//small:word@"))) as engine:
        engine.subscribe("t", heard.append)
        await engine.publish("t", "m")
        await until(lambda: heard == ["m"])
        await engine.write("a", {"f": "1", "g": None}, 60)
        assert await engine.read("a") == {"f": "1"}
        await engine.erase("a")
        assert await engine.claim("a", 60)
        version = await engine.put("a", b"1", version=None, ttl=60)
        assert await engine.get("a") == (b"1", version)
        assert [key async for key, _ in engine.items("")] == ["a"]
        assert await engine.delete("a", version=version or "")
        assert await engine.spend("a", every=1, burst=1) == 0
        for key in ("a", "b"):
            added = await engine.add(key, b"1", queue="s/q", owner="ann", most=9, most_of_owner=9)
            assert added == "added"
        taken = await engine.take(["s/q"], most=9, lease=60)
        assert await engine.renew({job.key: (1, 60) for job in taken.jobs}) == set()
        for job, keep in zip(taken.jobs, (None, 60), strict=True):
            assert await engine.change(job.key, b"2", version=job.version, fence=1, due=0, keep=keep)
        assert len(await engine.owned("ann", server="s", after="b", most=9)) == 1
        assert [each.ready for each in await engine.waiting("s")] == [1]
        (left,) = (await engine.take(["s/q"], most=9, lease=60)).jobs
        assert await engine.change(left.key, b"3", version=left.version, keep=60)
        with pytest.raises(PermissionError):
            await engine._opened()[0].run(engine._opened()[0].command("FLUSHALL"))
    assert caplog.text == ""
    used = {name for name, calls in server.calls().items() if calls} - {"config", "acl|setuser", "ping"}
    unused = {rule[1:] for rule in rules if rule.startswith("+")} - {name.split("|")[0] for name in used}
    assert unused <= {"select", "persist"}


# What it is set to


@pytest.mark.parametrize(("policy", "is_told"), [("noeviction", False), ("allkeys-lru", True)])
async def test_a_redis_that_may_forget_is_told_once(
    policy: str, is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        RedisServer(tmp_path / "redis", "--maxmemory-policy", policy) as started,
        closing(Redis(started.url)) as engine,
    ):
        await asyncio.gather(*(engine.claim(str(number), 60) for number in range(10)))
    assert caplog.text.count("maxmemory-policy allkeys-lru") == is_told


async def test_a_full_redis_refuses_and_keeps_what_it_has(shared: Redis, server: RedisServer) -> None:
    version = await shared.put("a", b"1", version=None, ttl=60)
    server.ask("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(OSError, match=r"refuses: .*maxmemory"):
        await shared.put("b", b"1", version=None, ttl=60)
    assert await shared.get("a") == (b"1", version)
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert await shared.put("b", b"1", version=None, ttl=60)


@pytest.mark.slow
def test_nothing_is_opened_before_it_is_used() -> None:
    program = (
        "import sys; from mcpkit import Redis; Redis('redis://localhost'); print('redis' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout == "False\n"


# Once, whatever is sent twice


async def run(engine: Redis, script: Any, keys: list[bytes], *args: Any) -> list[object]:
    """Run a script twice with one operation, something else in between."""
    link, _ = engine._opened()

    async def twice() -> list[object]:
        first = await link.script(script, keys, *args)
        await between()
        return [first, await link.script(script, keys, *args)]

    async def between() -> None:
        await link.command("HSET", b"own:r:other", "f", "1")
        if keys[-1] == b"own:expiry":
            await link.command("HSET", keys[1], "value", "later", "version", "later")
        elif keys[-1].startswith(b"own:r:"):
            await link.command("HSET", keys[-1], "f", "later")

    return await link.run(twice())


async def test_what_is_sent_again_is_done_once(shared: Redis, server: RedisServer) -> None:
    assert await run(shared, WRITE, [b"own:o:1", b"own:r:a"], 60_000, 1, "f", "mine") == [b"1", b"1"]
    assert await shared.read("a") == {"f": "later"}
    assert await run(shared, ERASE, [b"own:o:2", b"own:r:a"]) == [b"1", b"1"]
    assert await shared.read("a") == {"f": "later"}
    value = [b"own:v:a", b"own:names", b"own:expiry"]
    assert await run(shared, PUT, [b"own:o:3", *value], b"", "mine", b"x", 60_000, "a") == [b"1", b"1"]
    assert await shared.get("a") == (b"later", "later")
    assert await run(shared, DELETE, [b"own:o:4", *value], b"=later", "a") == [b"1", b"1"]
    assert await shared.get("a") == (b"later", "later")
    assert await run(shared, CLAIM, [b"own:c:a"], "me", 60_000) == [b"1", b"1"]
    assert not await shared.claim("a", 60)
    first, second = await run(shared, PUBLISH, [b"own:o:5", b"own:log", b"own:m:1"], 100, 100, "t", "m")
    assert first == second
    assert server.ask("XLEN", "own:log") == 1


# What it costs


async def counted(server: RedisServer, work: Any) -> dict[str, int]:
    """Return which commands clients have sent meanwhile, those apart that scripts run and that wait for messages."""
    inner = {"get", "set", "hset", "hget", "hdel", "pexpire", "exists", "xadd", "xinfo|stream", "time", "del"}
    inner |= {"zadd", "zrem", "zrangebyscore", "zrangebylex", "client", "client|setinfo", "xinfo"}
    before = server.calls()
    await work
    after = server.calls()
    found = {name: count - before.get(name, 0) for name, count in after.items() if name not in inner}
    return {name: count for name, count in found.items() if count and name not in {"info", "xread"}}


async def test_each_operation_is_one_round_trip(shared: Redis, server: RedisServer) -> None:
    heard: list[str] = []
    shared.subscribe("t", heard.append)
    for _ in range(2):  # the scripts are known the second time
        version = await shared.put("a", b"1", version=None, ttl=60)
        await shared.write("a", {"f": "1", "g": None}, 60)
        await shared.claim("first", 60)
        await shared.publish("t", "m")
        await shared.erase("b")
        await shared.delete("a", version=version or "")
    for work in (
        shared.put("a", b"1", version=None, ttl=60),
        shared.write("a", {"f": "2", "h": None}, 60),
        shared.write("a", {}, 60),
        shared.erase("a"),
        shared.claim("second", 60),
        shared.publish("t", "m"),
        shared.delete("a", version="none"),
    ):
        assert await counted(server, work) == {"evalsha": 1}
    assert await counted(server, shared.read("a")) == {"hgetall": 1}
    assert await counted(server, shared.get("a")) == {"hmget": 1}
    assert await counted(server, shared.listening()) == {}
    await until(lambda: len(heard) == 3)


async def test_a_message_is_read_once_by_a_process_whoever_listens(
    shared: Redis, server: RedisServer
) -> None:
    heard: list[str] = []
    for _ in range(50):
        shared.subscribe("t", heard.append)
    await shared.publish("t", "first")
    await until(lambda: len(heard) == 50)
    before = server.calls()["xread"]
    await shared.publish("t", "second")
    await until(lambda: len(heard) == 100)
    assert server.calls()["xread"] - before <= 2
    assert server.ask("CLIENT", "LIST").count(b"cmd=xread") == 1


async def test_a_plain_call_makes_no_round_trip(shared: Redis, server: RedisServer) -> None:
    notes = Server("notes", shared=shared, secret="a secret of sixteen bytes and more")

    @notes.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with connect(notes, revision="2026-07-28") as client:
        await client.call("add", {"a": 1, "b": 2})
        await until(
            lambda: server.calls().get("zrangebylex")
        )  # whether there are records that nobody can read

        async def calls() -> None:
            for _ in range(100):
                await client.call("add", {"a": 1, "b": 2})

        assert (await counted(server, calls())).keys() <= {"ping"}


# Many and long


@pytest.mark.slow
async def test_a_thousand_at_once_share_a_few_connections(shared: Redis, server: RedisServer) -> None:
    await asyncio.gather(*(shared.write(str(number), {"f": "1"}, 60) for number in range(1000)))
    assert server.ask("DBSIZE") >= 1000
    assert server.ask("CLIENT", "LIST").count(b"id=") <= 20


async def test_long_messages_are_heard_and_stand_beside_the_log(shared: Redis, server: RedisServer) -> None:
    heard: list[str] = []
    shared.subscribe("t", heard.append)
    messages = ["a" * (LONG + 1), "b", "c" * 1_000_000]
    for message in messages:
        await shared.publish("t", message)
    await until(lambda: len(heard) == 3)
    assert heard == messages
    assert server.ask("MEMORY", "USAGE", "own:log") < 10_000
    assert all(0 < server.ask("PTTL", key) <= 30_000 for key in server.ask("KEYS", "own:m:*"))


@pytest.mark.slow
async def test_at_once_is_in_the_order_in_which_it_was_asked_for(shared: Redis) -> None:
    heard: list[str] = []
    shared.subscribe("t", heard.append)
    await asyncio.gather(*(shared.publish("t", str(number)) for number in range(500)))
    await until(lambda: len(heard) == 500)
    assert heard == [str(number) for number in range(500)]


# Processes

FORKS = """
import asyncio, json, os, sys
from mcpkit import Redis

shared = Redis(sys.argv[1], prefix=sys.argv[2])
heard = []
leave = shared.subscribe("t", heard.append)

async def work(name):
    await shared.write("fields", {name: "1"}, 600)
    await shared.publish("t", name)
    return dict(await shared.read("fields"))

asyncio.run(work("parent"))
for number in range(3):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        leave()
        own = []
        shared.subscribe("t", own.append)
        fields = asyncio.run(work(f"child {number}"))
        while not own:
            pass
        os.write(writing, json.dumps([fields, own]).encode())
        sys.exit(0)  # with all that the interpreter does at its end
    assert os.waitpid(child, 0)[1] == 0
    print(os.read(reading, 10_000).decode())
    asyncio.run(work("parent"))
while len(heard) < 7:
    pass
print(json.dumps([sorted(asyncio.run(work("end"))), heard[:7]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
async def test_a_forked_process_has_connections_and_listeners_of_its_own() -> None:
    output = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, common_server().url, "forks:"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert output.stderr == ""
    *children, end = map(json.loads, output.stdout.splitlines())
    for number, (fields, heard) in enumerate(children):
        assert fields.keys() == {"parent", *(f"child {each}" for each in range(number + 1))}
        assert heard == [f"child {number}"]
    fields, heard = end
    assert fields == ["child 0", "child 1", "child 2", "end", "parent"]
    assert heard == ["parent", "child 0", "parent", "child 1", "parent", "child 2", "parent"]


async def test_it_is_closed_and_used_again(shared: Redis, server: RedisServer, caplog: Any) -> None:
    heard: list[str] = []
    with caplog.at_level(logging.INFO, "mcpkit"):
        for turn in range(3):
            shared.subscribe("t", heard.append)
            await shared.publish("t", str(turn))
            await until(lambda turn=turn: len(heard) == turn + 1)
            shared.close()
            shared.close()
    assert heard == ["0", "1", "2"]
    await until(lambda: server.ask("CLIENT", "LIST").count(b"id=") == 1)
    assert caplog.text == ""
