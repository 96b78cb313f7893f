"""When a process hears what others publish at a Redis, and what a start, a fork and a gap are for who listens."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Redis
from tests.helpers.redis_server import RedisServer, common_server
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


@pytest.mark.slow
async def test_what_is_published_elsewhere_as_soon_as_it_listens_is_heard(server: RedisServer) -> None:
    with closing(Redis(server.url)) as other:
        await other.publish("t", "before")
        for _ in range(20):
            heard: list[str] = []
            with closing(Redis(server.url)) as fresh:
                fresh.subscribe("t", heard.append)
                await fresh.listening()
                await other.publish("t", "after")
                await until(lambda heard=heard: heard)
            assert heard == ["after"]


@pytest.mark.slow
async def test_many_who_begin_together_wait_for_one_look(server: RedisServer) -> None:
    with closing(Redis(server.url)) as engine:
        await asyncio.gather(*(engine.listening() for _ in range(100)))
        calls = server.calls()
        assert calls.get("xinfo|stream", calls.get("xinfo")) == 1
        assert server.calls()["info"] <= 2, "that of the test's own is not counted yet"


async def test_where_redis_is_away_nobody_is_told_that_they_listen(server: RedisServer) -> None:
    server.kill()
    heard: list[str] = []
    with closing(Redis(server.url)) as engine:
        engine.subscribe("t", heard.append)
        with pytest.raises(ConnectionError, match="cannot be reached"):
            await engine.listening()
        server.start()

        async def is_listening() -> bool:
            try:
                await engine.listening()
            except ConnectionError:
                return False
            return True

        while not await is_listening():
            await asyncio.sleep(0.01)
        server.ask("PING")
        with closing(Redis(server.url)) as other:
            await other.publish("t", "after")
            await until(lambda: heard == ["after"])


@pytest.mark.slow
async def test_who_listens_already_still_does_while_redis_is_away(server: RedisServer) -> None:
    """What is published then is heard or told to be missed as soon as it is back."""
    missed: list[bool] = []
    with closing(Redis(server.url)) as engine:
        engine.subscribe("t", print, lambda: missed.append(True))
        await engine.listening()
        server.kill()
        await engine.listening()
        server.start()
        await until(lambda: missed)


async def test_a_listener_that_fails_when_it_missed_something_keeps_no_other_from_it(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    missed: list[bool] = []

    def fail() -> None:
        raise RuntimeError("not ready")

    with closing(Redis(server.url)) as engine:
        engine.subscribe("t", print, fail)
        engine.subscribe("t", print)
        engine.subscribe("t", print, lambda: missed.append(True))
        await engine.listening()
        server.kill()
        server.start()
        await until(lambda: missed)
    assert "A listener of the topic t failed" in caplog.text


@pytest.mark.parametrize(("is_kept", "is_told"), [("yes", False), ("no", True)])
async def test_a_redis_that_keeps_nothing_is_told_once(
    is_kept: str, is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        RedisServer(tmp_path / "redis", "--appendonly", is_kept) as started,
        closing(Redis(started.url)) as engine,
    ):
        await asyncio.gather(*(engine.claim(str(number), 60) for number in range(10)))
    assert caplog.text.count("has appendonly no") == is_told


FORK = """
import asyncio, os, socket, sys
from contextlib import suppress
from mcpkit import Redis

def connections():
    found = 0
    for each in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(each))) as duplicate:
            found += duplicate.family == socket.AF_INET
    return found

shared = Redis(sys.argv[1])
asyncio.run(shared.listening())
asyncio.run(shared.claim("a" + os.urandom(8).hex(), 60))
assert connections() >= 2, connections()
if os.fork() == 0:
    assert connections() == 0, connections()
    asyncio.run(shared.read("a"))
    assert connections() > 0
    sys.exit(0)
assert os.wait()[1] == 0
asyncio.run(shared.listening())
asyncio.run(shared.read("a"))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the sockets of a process are looked up in /proc")
async def test_a_forked_process_holds_no_connection_of_its_parents() -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, common_server().url],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
