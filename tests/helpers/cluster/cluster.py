"""A server as it is run in production, on one machine: nginx, three replicas, two workers and a Redis, all real."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.helpers.cluster.gateway import Gateway
from tests.helpers.cluster.ledger import Ledger
from tests.helpers.cluster.processes import PATIENCE, Process, free_port
from tests.helpers.cluster.redis_proxy import RedisProxy
from tests.helpers.nginx import executable
from tests.helpers.redis_server import RedisServer

KEPT = Path(os.environ.get("MCPKIT_LEDGERS", Path(tempfile.gettempdir()) / "mcpkit-ledgers"))
"""Where the ledgers and logs of a run that has failed are left."""


class Cluster:
    """All of it; a context manager that starts it, and leaves nothing behind but what a failure is looked into by.

    Args:
        name: What is tried; the folder of a run that fails is called so.
        replicas: How many.
        workers: How many.
        settings: What is in the environment of replicas and workers besides.
        ahead: Seconds by which the clocks of replicas and workers are ahead, in turn.
        redis: Further options of redis-server.
        is_direct: Whether nothing stands before the Redis.

    Attributes:
        folder: The files of this run.
        redis: The Redis.
        proxies: What stands before it: one for all replicas, and one for each worker.
        gateway: What stands before the replicas.
        replicas: The replicas.
        workers: The workers.
        asked: The ledger of the clients.
        effects: The ledger of the tools.
    """

    def __init__(
        self,
        name: str,
        *,
        replicas: int = 3,
        workers: int = 2,
        settings: Mapping[str, object] | None = None,
        ahead: Sequence[float] = (0,),
        redis: Sequence[str] = (),
        is_direct: bool = False,
    ) -> None:
        nginx = executable()
        if nginx is None:
            pytest.skip("no nginx on this machine (Debian: apt-get install nginx-light)")
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.redis = RedisServer(self.folder / "redis", *redis)
        self.proxies = [RedisProxy(self.redis.port) for _ in range(1 + workers)]
        self.asked = Ledger(self.folder / "asked.jsonl")
        self.effects = Ledger(self.folder / "effects.jsonl")
        self._ups = Ledger(self.folder / "up.jsonl")
        self._settings = {"LEDGER": self.effects.path, "FOLDER": self.folder, **(settings or {})}
        self._ahead = list(ahead)
        self.replicas = [self._replica(number) for number in range(replicas)]
        self.workers = [self._worker(replicas + number, number) for number in range(workers)]
        self.gateway = Gateway(nginx, [each.port or 0 for each in self.replicas], self.folder)
        self._is_direct = is_direct
        self._exits = AsyncExitStack()

    def _replica(self, number: int) -> Process:
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level", "warning"]
        return self._process(
            f"replica-{number}", number, [*command, "tests.helpers.cluster.server:app"], port
        )

    def _worker(self, number: int, name: int) -> Process:
        command = [
            sys.executable,
            "-m",
            "mcpkit",
            "worker",
            "tests.helpers.cluster.server:server",
            "--slots",
            "8",
        ]
        return self._process(f"worker-{name}", number, command, None)

    def _process(self, name: str, number: int, command: Sequence[str], port: int | None) -> Process:
        ahead = self._ahead[number % len(self._ahead)]
        return Process(name, command, self.folder, self._settings, ahead=ahead, port=port)

    @property
    def url(self) -> str:
        """The endpoint, at which any replica may answer."""
        return self.gateway.url

    @property
    def servers(self) -> list[Process]:
        """The replicas and the workers."""
        return [*self.replicas, *self.workers]

    async def __aenter__(self) -> Cluster:
        try:
            self._exits.enter_context(self.redis)
            for proxy in self.proxies:
                await self._exits.enter_async_context(proxy)
            for each in (*self.servers, self.gateway):
                if each in self.servers:
                    each.settings["REDIS_URL"] = (self.redis if self._is_direct else self.proxy_of(each)).url
                each.start()
                self._exits.callback(each.kill)
            await asyncio.gather(*(self.up(each) for each in (*self.servers, self.gateway)))
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self._exits.aclose()
        if error is not None:
            KEPT.mkdir(exist_ok=True)
            print(f"the ledgers are in {shutil.move(self.folder, KEPT)}")
        else:
            shutil.rmtree(self.folder)

    def proxy_of(self, process: Process) -> RedisProxy:
        """Return what stands before the Redis for a replica or a worker."""
        return self.proxies[1 + self.workers.index(process) if process in self.workers else 0]

    async def up(self, process: Process) -> None:
        """Wait until a process works: a replica listens, and a worker has entered its lifespan."""
        await process.up()
        if process in self.workers:
            await self.until(
                lambda: any(line["pid"] == process.pid for line in self._ups.lines()),
                lambda: f"{process.name} does not come up: {process.notes()}",
            )

    async def restart(self, process: Process) -> None:
        """Kill a process, start it again, and wait until it works."""
        process.kill()
        process.start()
        await self.up(process)

    @staticmethod
    async def until(condition: Callable[[], object], why: Callable[[], str]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, why()
            await asyncio.sleep(0.02)
