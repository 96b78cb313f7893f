"""A redis-server on a free port, a Redis engine with the clock of the test, and a proxy that loses replies."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcpkit.state.queue import Added, Job, LeasedJobs, Message, QueueStats
from mcpkit.storage import Redis, StoredValue
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
        self.process = subprocess.Popen(
            [
                *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)),
                *("--save", "", "--appendonly", "yes", "--appendfsync", "everysec", *self.options),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
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
    """A Redis in which time passes when the test says so: what is left to each key is made shorter."""

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

    async def read(self, key: str) -> Mapping[str, str]:
        self._move()
        return await super().read(key)

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        self._move()
        await super().write(key, changes, ttl * SCALE)

    async def claim(self, key: str, ttl: float) -> bool:
        self._move()
        return await super().claim(key, ttl * SCALE)

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        self._move()
        return await super().take_tokens(key, every=every * SCALE, burst=burst, cost=cost) / SCALE

    async def get(self, key: str) -> StoredValue | None:
        self._move()
        return await super().get(key)

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        self._move()
        is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
        return await super().put(key, value, version=version, ttl=ttl * SCALE if is_number else ttl)

    async def delete(self, key: str, *, version: str) -> bool:
        self._move()
        return await super().delete(key, version=version)

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        self._move()
        return await super().add(
            key, value, queue=queue, owner=owner, max_open=max_open, max_open_per_owner=max_open_per_owner
        )

    async def get_job(self, key: str) -> Job | None:
        self._move()
        return await super().get_job(key)

    async def change(
        self,
        key: str,
        value: bytes,
        *,
        version: str,
        fence: int | None = None,
        due: float | None = None,
        ttl: float | None = None,
        message: Message | None = None,
    ) -> str | None:
        self._move()
        due, ttl = due and due * SCALE, ttl and ttl * SCALE
        return await super().change(
            key, value, version=version, fence=fence, due=due, ttl=ttl, message=message
        )

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        self._move()
        taken = await super().take(queues, limit=limit, lease=lease * SCALE, ready_for=ready_for * SCALE)
        return taken._replace(now=self._clock())

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        self._move()
        return await super().renew(
            {key: (fence, seconds * SCALE) for key, (fence, seconds) in leases.items()}
        )

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        self._move()
        return await super().list_jobs(owner, server=server, after=after, limit=limit)

    async def list_queues(self, server: str) -> list[QueueStats]:
        self._move()
        return [each._replace(oldest=each.oldest / SCALE) for each in await super().list_queues(server)]

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        self._move()
        async for each in super().items(prefix):
            yield each


async def kept(engine: Redis) -> int:
    """Count the records, claims and values that have not expired."""
    if isinstance(engine, Dated):
        engine._move()
    keys = common_server().ask("KEYS", engine._prefix + b"*")
    kinds = (b"r:", b"c:", b"v:", b"b:", b"q{0}:j:")
    return sum(key.startswith(kinds, len(engine._prefix)) for key in keys)


class LossyProxy:
    """What stands between, and lets replies get lost, once something is done there.

    Attributes:
        port: Where connections lead that are opened from now on.
        is_cut: Whether a connection breaks when a reply of its gets lost; else nothing more comes by it.
        drops_next_reply: Whether the next reply gets lost.
        dropped_replies: How many have been.
    """

    def __init__(self, port: int, *, is_cut: bool = False) -> None:
        self.port = port
        self.is_cut = is_cut
        self.drops_next_reply = False
        self.dropped_replies = 0

    async def start(self) -> tuple[asyncio.Server, int]:
        """Begin to stand between; give what is to be closed, and the port."""
        listening = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return listening, listening.sockets[0].getsockname()[1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind, before = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return

        async def back() -> None:
            with suppress(OSError):
                await forward()
            writer.close()

        async def forward() -> None:
            while data := await behind.read(65_536):
                if self.drops_next_reply:
                    self.drops_next_reply = False
                    self.dropped_replies += 1
                    while not self.is_cut and await behind.read(65_536):
                        pass
                    return
                writer.write(data)

        answering = asyncio.create_task(back())
        with suppress(OSError):
            while data := await reader.read(65_536):
                before.write(data)
        for each in (before, writer):
            each.close()
            with suppress(OSError):
                await each.wait_closed()
        await answering
