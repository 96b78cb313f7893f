"""Replicas, workers and a Redis as real processes, with a proxy before the Redis, and ledgers of what happened."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.helpers.processes import DEFAULT_TIMEOUT, Process, free_port
from tests.helpers.redis_server import RedisProxy, RedisServer
from tests.helpers.serving import ROOT

KEPT = Path(os.environ.get("MCPKIT_LEDGERS", Path(tempfile.gettempdir()) / "mcpkit-ledgers"))
"""The folder of ledgers and logs of runs that failed."""
AHEAD = Path(__file__).with_name("ahead")

Line = dict[str, Any]


class EventLog:
    """A file of JSON lines; each line is appended with one write, by any process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, what: str, **more: Any) -> None:
        line = {"what": what, **more, "time": time.monotonic()}
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def lines(self, what: str | None = None) -> list[Line]:
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in lines if what is None or line["what"] == what]


class Cluster:
    """A context manager that starts all processes; the folder of a run that fails is kept.

    Args:
        name: The scenario, which names the folder.
        replicas: The number of replicas.
        workers: The number of workers.
        settings: Additional environment variables of replicas and workers.
        ahead: Seconds by which the clocks of replicas and workers are ahead, in turn.

    Attributes:
        responses: The ledger of the clients.
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
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.redis = RedisServer(self.folder / "redis")
        self.proxy = RedisProxy(self.redis.port)
        self.responses = EventLog(self.folder / "responses.jsonl")
        self.effects = EventLog(self.folder / "effects.jsonl")
        self._starts = EventLog(self.folder / "starts.jsonl")
        self._settings = {"LEDGER": self.effects.path, "FOLDER": self.folder, **(settings or {})}
        self._ahead = ahead
        uvicorn = ["uvicorn", "tests.chaos.server:app", "--log-level", "warning", "--port"]
        self.replicas = [
            self._process(f"replica-{number}", number, [*uvicorn, str(port)], port)
            for number, port in enumerate(free_port() for _ in range(replicas))
        ]
        worker = ["mcpkit", "worker", "tests.chaos.server:server", "--slots", "8"]
        self.workers = [
            self._process(f"worker-{number}", replicas + number, worker, None) for number in range(workers)
        ]
        self.servers = [*self.replicas, *self.workers]
        self._exits = AsyncExitStack()

    def _process(self, name: str, number: int, module: list[str], port: int | None) -> Process:
        settings = dict(self._settings)
        if ahead := self._ahead[number % len(self._ahead)]:
            settings |= {"PYTHONPATH": f"{AHEAD}{os.pathsep}{ROOT}", "CLOCK_AHEAD": ahead}
        return Process(name, [sys.executable, "-m", *module], self.folder, settings, port=port)

    @property
    def url(self) -> str:
        return self.replicas[0].url

    async def __aenter__(self) -> Cluster:
        try:
            self._exits.enter_context(self.redis)
            await self._exits.enter_async_context(self.proxy)
            for each in self.servers:
                each.settings["REDIS_URL"] = self.proxy.url
                each.start()
                self._exits.callback(each.kill)
            await asyncio.gather(*map(self.wait_for_start, self.servers))
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self._exits.aclose()
        if error is None:
            shutil.rmtree(self.folder)
        else:
            KEPT.mkdir(exist_ok=True)
            print(f"the ledgers are in {shutil.move(self.folder, KEPT)}")

    async def wait_for_start(self, process: Process) -> None:
        """Wait until a replica listens or a worker has entered its lifespan."""
        await process.up()
        if process in self.workers:
            await self.until(
                lambda: any(line["pid"] == process.pid for line in self._starts.lines()),
                f"{process.name} does not start",
            )

    async def restart(self, process: Process) -> None:
        """Kill a process, and start it again."""
        process.kill()
        process.start()
        await self.wait_for_start(process)

    @staticmethod
    async def until(condition: Callable[[], object], problem: str) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while not condition():
            assert time.monotonic() < deadline, problem
            await asyncio.sleep(0.02)
