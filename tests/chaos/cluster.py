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
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.helpers.processes import DEFAULT_TIMEOUT, Process, free_port
from tests.helpers.redis_server import RedisServer
from tests.helpers.serving import ROOT

KEPT = Path(os.environ.get("MCPKIT_LEDGERS", Path(tempfile.gettempdir()) / "mcpkit-ledgers"))
"""The folder of ledgers and logs of runs that failed."""
AHEAD = Path(__file__).with_name("ahead")

Line = dict[str, Any]


class Ledger:
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


class RedisProxy:
    """A TCP proxy before a Redis that delays data, cuts connections, or drops replies.

    Attributes:
        upstream: The port of the Redis.
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
        try:
            with suppress(OSError, asyncio.CancelledError):
                redis_reader, redis_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
                await self._forward_both(reader, writer, redis_reader, redis_writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _forward_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        redis_reader: asyncio.StreamReader,
        redis_writer: asyncio.StreamWriter,
    ) -> None:
        self._connections |= {writer, redis_writer}
        directions = [
            asyncio.ensure_future(self._forward(reader, redis_writer, is_reply=False)),
            asyncio.ensure_future(self._forward(redis_reader, writer, is_reply=True)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self._connections -= {writer, redis_writer}
            redis_writer.transport.abort()

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
        self.responses = Ledger(self.folder / "responses.jsonl")
        self.effects = Ledger(self.folder / "effects.jsonl")
        self._starts = Ledger(self.folder / "starts.jsonl")
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
