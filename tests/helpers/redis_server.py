"""A redis-server on a free port, a Redis engine with the clock of the test, and a proxy that loses replies."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partialmethod
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mcpkit.storage import Redis, StoredValue
from mcpkit.storage.base import QueueStats
from mcpkit.storage.jobs_and_heartbeats import LeasedJobs
from tests.helpers.waiting import DEFAULT_TIMEOUT

SCALE = 100_000
"""Seconds of Redis in a second of the test's clock, so that what really passes is none of it."""

_HIGHEST = 55_535
"""The highest port of a server: one of a cluster takes the port that is 10,000 above its own as well."""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        return port if port <= _HIGHEST else free_port()


class RedisServer:
    """A redis-server that is started, killed, paused and started again.

    Args:
        folder: Where its files are.
        options: Further ones of its command line.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("there is no redis-server: apt-get install redis-server")
        pytest.importorskip("redis", reason='redis-py is not installed: pip install "mcpkit[redis]"')
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.folder = folder
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.password: str | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while not self._answers():
            assert self.process.poll() is None, "redis-server has ended"
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            return self.ask("PING") in {b"PONG", True}
        except Exception:
            return False

    def ask(self, *command: Any) -> Any:
        """Send a command on a connection of its own, and return the raw reply."""
        import redis

        with redis.Redis(
            port=self.port, socket_timeout=DEFAULT_TIMEOUT, password=self.password, protocol=2
        ) as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    def replicated(self) -> int:
        """Return how many bytes of changes there are for replicas; of a replica how many it has, -1 without a link."""
        found = dict(
            line.split(":", 1) for line in self.ask("INFO", "replication").decode().split() if ":" in line
        )
        is_linked = found.get("master_link_status", "up") == "up"
        return int(found.get("slave_repl_offset", found["master_repl_offset"])) if is_linked else -1

    def calls(self) -> dict[str, int]:
        """Return how often each command was called, those of scripts included."""
        found = self.ask("INFO", "commandstats").decode()
        return {
            line.split(":")[0].removeprefix("cmdstat_"): int(line.split("calls=")[1].split(",")[0])
            for line in found.splitlines()
            if line.startswith("cmdstat_")
        }

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()


@cache
def common_server() -> RedisServer:
    """Return the server of all tests that do it no harm."""
    folder = Path(tempfile.mkdtemp(prefix="mcpkit-redis-"))
    server = RedisServer(folder, "--maxmemory-policy", "noeviction")
    server.start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.__exit__)
    return server


_MOVE = """
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  if string.find(key, 'q{0}:[lx]:', #ARGV[1] + 1) then
    local scores = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #scores, 2 do
      local score = tonumber(scores[i + 1]) - ARGV[2] * 1000
      redis.call('ZADD', key, score == math.huge and 'inf' or string.format('%.0f', score), scores[i])
    end
  end
  local left = redis.call('PTTL', key)
  if string.sub(key, #ARGV[1] + 1, #ARGV[1] + 2) == 'b:' then
    redis.call('SET', key, string.format('%.6f', redis.call('GET', key) - ARGV[2] / 1000), 'KEEPTTL')
  end
  if left >= 0 then redis.call('PEXPIRE', key, string.format('%d', left - ARGV[2])) end
end
"""


class Dated(Redis):
    """A Redis engine with the clock of the test."""

    def __init__(self, url: str, prefix: str, clock: Callable[[], float]) -> None:
        super().__init__(url, prefix=prefix)
        self._clock = clock
        self._moved = clock()
        self._moving = threading.Lock()

    def _move(self) -> None:
        with self._moving:
            now = self._clock()
            if now != self._moved:
                passed = round(now * SCALE * 1000) - round(self._moved * SCALE * 1000)
                self._moved = now
                common_server().ask("EVAL", _MOVE, 0, self._prefix, passed)

    async def _call(self, method: Any, *args: Any, **options: Any) -> Any:
        """Call a method of `Redis` with its seconds scaled."""
        self._move()
        bound = inspect.signature(method).bind(self, *args, **options)
        for name, value in bound.arguments.items():
            if name in {"ttl", "due", "lease", "ready_for", "every"} and type(value) in {int, float}:
                bound.arguments[name] = value * SCALE
        return await method(*bound.args, **bound.kwargs)

    async def take_tokens(self, key: str, **options: Any) -> float:
        return await self._call(Redis.take_tokens, key, **options) / SCALE

    async def take(self, queues: Sequence[str], **options: Any) -> LeasedJobs:
        return (await self._call(Redis.take, queues, **options))._replace(now=self._clock())

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        scaled = {key: (fence, seconds * SCALE) for key, (fence, seconds) in leases.items()}
        return await self._call(Redis.renew, scaled)

    async def list_queues(self, server: str) -> list[QueueStats]:
        found = await self._call(Redis.list_queues, server)
        return [each._replace(oldest=each.oldest / SCALE) for each in found]

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        self._move()
        async for each in super().items(prefix):
            yield each


for _name in ("read", "write", "claim", "get", "put", "delete", "add", "get_job", "change", "list_jobs"):
    setattr(Dated, _name, partialmethod(Dated._call, getattr(Redis, _name)))


async def count_records(engine: Redis) -> int:
    """Count the records, claims and values that have not expired."""
    if isinstance(engine, Dated):
        engine._move()
    keys = common_server().ask("KEYS", engine._prefix + b"*")
    kinds = (b"r:", b"c:", b"v:", b"b:", b"q{0}:j:")
    return sum(key.startswith(kinds, len(engine._prefix)) for key in keys)


class RedisProxy:
    """A TCP proxy before a Redis that delays data, cuts connections, or drops replies.

    Attributes:
        upstream: The port of the Redis, for connections that are opened from now on.
        delay: Seconds that data takes in each direction.
        drops: The number of replies that are still to be dropped, each with its connection.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = 0
        self.delay = 0.0
        self.drops = 0
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def __aenter__(self) -> RedisProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, draw: Random | None = None) -> None:
        """Close all connections, or about half of them."""
        for each in self._connections:
            if draw is None or draw.random() < 0.5:
                each.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers, directions = {writer}, []
        try:
            with suppress(OSError, asyncio.CancelledError):
                redis_reader, redis_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
                writers.add(redis_writer)
                self._connections |= writers
                directions = [
                    asyncio.ensure_future(self._forward(reader, redis_writer, is_reply=False)),
                    asyncio.ensure_future(self._forward(redis_reader, writer, is_reply=True)),
                ]
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in directions:
                each.cancel()
            self._connections -= writers
            for each in writers:
                each.transport.abort()
            await asyncio.gather(*directions, return_exceptions=True)
            self._tasks.discard(task)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        while data := await reader.read(65536):
            if is_reply and self.drops:
                self.drops -= 1
                return
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
