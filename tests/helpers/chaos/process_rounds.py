"""Rounds with real servers, in processes of their own that are killed, and behind a proxy that has its bad days."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from mcpkit import Client, OutcomeUnknownError
from mcpkit.client.asking.forms import FormRequest
from mcpkit.client.transports.http.sse import SseTransport
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.chaos.left_over import nothing_left
from tests.helpers.chaos.peer import HANDSHAKE, OLDEST, STATELESS
from tests.helpers.chaos.proxy import FaultyProxy
from tests.helpers.chaos.rounds import MAY_REPEAT, PIPE, POSTS, SSE, TRIES, Ended, Round, WrongError, require

ROOT = Path(__file__).parents[3]
SERVER = Path(__file__).with_name("server.py")
_DEATHS = ("before", "in the stream", "after", "having answered")
_PATIENCE = 60.0


class Place:
    """Where servers of one kind run, what they have done, and how they are killed.

    Args:
        folder: Takes their notes.
        way: How they are reached.

    Attributes:
        proxy: Between client and server; None over pipes.
    """

    def __init__(self, folder: Path, way: str) -> None:
        self.folder = folder
        self.way = way
        self.proxy: FaultyProxy | None = None
        self._command = [sys.executable, str(SERVER), str(folder)]
        self._port = 0

    @property
    def done(self) -> Counter[str]:
        """How often each call was done, by key."""
        with suppress(FileNotFoundError):
            return Counter((self.folder / "done").read_text().splitlines())
        return Counter()

    def kill(self) -> None:
        """Kill the server that runs, if one does."""
        with suppress(OSError, ValueError):
            pid = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if str(self.folder).encode() in command:  # and nothing else that has the number by now
                os.kill(pid, signal.SIGKILL)

    def target(self, draw: Random) -> Any:
        """Return what a client takes as the server."""
        if self.way == PIPE:
            return StdioTransport(self._command, env={"PYTHONPATH": str(ROOT)}, stderr=lambda line: None)
        assert self.proxy is not None
        port = draw.choice([self._port, self.proxy.port, self.proxy.port])
        if self.way == SSE:
            return SseTransport(f"http://127.0.0.1:{port}/sse", trust_env=False)
        return HttpTransport(f"http://127.0.0.1:{port}/mcp", trust_env=False)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Have a server over HTTP, which is started again whenever it has ended, until the end of the block."""
        if self.way == PIPE:
            yield
            return
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            place.bind(("127.0.0.1", 0))  # nobody else gets the port between two servers
            self._port = place.getsockname()[1]
            self.proxy = FaultyProxy(self._port)
            await self.proxy.start()
            keeping = asyncio.ensure_future(self._keep_alive())
            try:
                yield
            finally:
                keeping.cancel()
                await asyncio.wait([keeping])
                await self.proxy.close()

    async def _keep_alive(self) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(self._port),
                env={"PYTHONPATH": str(ROOT)},
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()


class Notes:
    """What a round knows of the server, in the place of one that is scripted."""

    def __init__(self, place: Place, draw: Random, revision: str) -> None:
        self.place = place
        self.draw = draw
        self.revision = revision
        self.is_armed = False
        self.killed: list[str] = []
        self.lives = 2  # it may have died

    @property
    def done(self) -> Counter[str]:
        return self.place.done

    @property
    def faults(self) -> list[str]:
        proxy = self.place.proxy
        return self.killed + ([] if proxy is None else proxy.faults)

    @property
    def is_stateless(self) -> bool:
        return self.revision == STATELESS


@dataclass
class ProcessRound(Round):
    """A round with a real server.

    Args:
        place: Where it runs.
    """

    place: Place | None = None
    timeout: ClassVar[float] = 5.0
    longest: ClassVar[float] = 120.0
    naps: ClassVar[tuple[float, ...]] = (0.001, 0.02, 0.1)

    async def play_in(self, place: Place) -> Counter[str]:
        """Play it."""
        self.place = place
        random.seed(self.seed)
        draw = self._draw = Random(self.seed)
        stateless = place.way == POSTS or (place.way == PIPE and draw.random() < 0.5)
        revision = STATELESS if stateless else OLDEST if place.way == SSE else HANDSHAKE
        self._peer = Notes(place, draw, revision)  # type: ignore[assignment]
        self._revision = revision
        try:
            await asyncio.wait_for(self._use(place.target(draw)), 4 * self.longest)
        except BaseException as error:
            raise WrongError(f"seed {self.seed}, {self.way}, processes: {error!r}") from error
        self.figures["rounds"] += 1
        return self.figures

    async def _use(self, target: Any) -> None:
        draw, place = self._draw, self.place
        assert place is not None
        before = asyncio.all_tasks()
        self._client = Client(
            target,
            elicit=self._answer,
            timeout=self.timeout,
            log_level=draw.choice([None, "warning"]),
            revision=self._revision,
            tries=TRIES,
        )
        try:
            await self._enter()
            if place.proxy is not None:
                place.proxy.break_down(draw, draw.choice([1, 2, 4]))
            killing = self._kill_some_time()
            await self._ask_amid_faults()
            killing.cancel()
            if place.proxy is not None:
                self.figures["faults of the proxy"] += len(place.proxy.faults)
                place.proxy.break_down(draw, 0)
            await self._go_on()
        finally:
            await self._client.close()
        await asyncio.sleep(0)
        left = {task for task in asyncio.all_tasks() - before if not _is_of_tests(task)}
        require(not left, f"tasks are left: {left}")

    def _kill_some_time(self) -> asyncio.TimerHandle:
        assert self.place is not None
        seconds = self._draw.uniform(0, 0.2) if self._draw.random() < 0.5 else 1000
        return asyncio.get_running_loop().call_later(seconds, self._kill)

    def _kill(self) -> None:
        assert self.place is not None
        self.figures["killed from outside"] += 1
        self._peer.killed.append("killed")  # type: ignore[attr-defined]
        self.place.kill()

    def _answer(self, form: FormRequest) -> Any:
        if self._draw.random() < 0.2:
            self._kill()  # between two rounds
        return super()._answer(form)

    def _asked(self, kind: str, key: str, progress: Any = None) -> Awaitable[Any]:
        if kind not in MAY_REPEAT:
            return super()._asked(kind, key, progress)
        arguments: dict[str, Any] = {"key": key}
        if "afterwards" not in key and self._draw.random() < 0.3:
            arguments |= {"death": self._draw.choice(_DEATHS), "times": self._draw.choice([1, 1, 2, 3])}
            self.figures["calls with a death before them"] += 1
        retry = {"bake again": True, "taste once": False}.get(kind)
        return self._client.call(kind.partition(" ")[0], arguments, retry=retry, progress=progress)

    async def _enter(self) -> None:
        for _ in range(600):
            ended = Ended("enter", "")
            await self._end(ended, self._client.__aenter__())
            if ended.error is None:
                ended = Ended("list", "")
                await self._end(ended, self._client.list_tools())
                if ended.error is None:
                    return
            await asyncio.sleep(0.1)
        raise WrongError(f"it could not be entered: {ended.error!r}")

    async def _go_on(self) -> None:
        """Ask the same client once more, as soon as the server is there again."""
        for number in range(600):
            ended = Ended("read", "")
            await self._end(ended, self._asked("read", ""))
            if ended.error is None:
                ended = Ended("bake", f"bake afterwards {number}")
                await self._end(ended, self._asked("bake", ended.key))
                self._judge(ended)
                if ended.error is None:
                    return
                require(isinstance(ended.error, (OutcomeUnknownError, TimeoutError)), f"{ended.error!r}")
            await asyncio.sleep(0.1)
        raise WrongError(f"it does not go on: {ended.error!r}, after {self._peer.faults}")


def _is_of_tests(task: asyncio.Task[Any]) -> bool:
    """Say whether a task is the proxy's, or that of what keeps the server alive."""
    coroutine: Any = task.get_coro()
    file = coroutine.cr_code.co_filename
    return not file.startswith(str(ROOT / "mcpkit")) and "site-packages" not in file


def play_process_block(way: str, seeds: Iterable[int]) -> Counter[str]:
    """Play rounds with real processes, of which nothing may be left over, and return their figures.

    Raises:
        AssertionError: A promise is broken; the message has the seed.
    """
    with nothing_left() as complain, tempfile.TemporaryDirectory(prefix="chaos") as folder:
        return asyncio.run(_play(way, seeds, Path(folder), complain))


async def _play(
    way: str, seeds: Iterable[int], folder: Path, complain: Callable[[Any], object]
) -> Counter[str]:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complain(context))
    figures: Counter[str] = Counter()
    place = Place(folder, way)
    async with place.served():
        for seed in seeds:
            for note in folder.iterdir():
                if note.name != "pid":
                    note.unlink()
            figures += await ProcessRound(seed, way, complain).play_in(place)
    return figures
