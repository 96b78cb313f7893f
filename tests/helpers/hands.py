"""Work for runners to do, and engines that fail when a test wants them to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mcpkit import Memory, Sqlite
from mcpkit.state.queue import Job, Queue, Taken
from mcpkit.tasks.leases import Hold
from mcpkit.tasks.runner import Runner
from tests.helpers.engines import done

LINE = "s/task/a"

LEASE = 10_000.0
"""Seconds that no test waits for."""

Do = Callable[[Job, Hold], Awaitable[None]]


async def add(queue: Queue, *keys: str, line: str = LINE) -> None:
    for key in keys:
        added = await queue.add(key, b"", queue=line, owner="", most=10_000, most_of_owner=10_000)
        assert added == "added"


async def take(queue: Queue, line: str = LINE) -> list[Job]:
    """Take what is ready, as somebody else would."""
    return (await queue.take([line], most=100, lease=LEASE)).jobs


async def look(queue: Queue, key: str) -> Job:
    job = await queue.look(key)
    assert job is not None
    return job


class Hands:
    """Work that keeps a record of what it was given.

    Args:
        queue: Where the jobs are from.
        do: What is done with each before it is ended; nothing by default.
        lines: The names of the queues.
        patience: See `Work`.
    """

    server = "s"

    def __init__(
        self, queue: Queue, do: Do | None = None, lines: Sequence[str] = (LINE,), patience: float = 3600.0
    ) -> None:
        self.queue = queue
        self.lines = list(lines)
        self.patience = patience
        self.jobs: list[Job] = []
        self.times: list[float] = []
        self.holds: list[Hold] = []
        self.cancelled: list[tuple[str, object]] = []
        """Which were cancelled, and by which messages."""
        self.running = 0
        self.most = 0
        """How many ran at a time, at most."""
        self.given_up: list[str] = []
        self._do = do

    @property
    def keys(self) -> list[str]:
        return [job.key for job in self.jobs]

    def queues(self) -> Sequence[str]:
        return self.lines

    async def run(self, job: Job, now: float, hold: Hold) -> None:
        self.jobs.append(job)
        self.times.append(now)
        self.holds.append(hold)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self._do is not None:
                await self._do(job, hold)
            await end(self.queue, job)
        except asyncio.CancelledError as error:
            self.cancelled.append((job.key, *error.args))
            if not hold.is_lost:
                await self.queue.change(job.key, b"back", version=job.version, fence=job.fence, due=0.0)
            raise
        finally:
            self.running -= 1

    async def give_up(self, job: Job, now: float) -> None:
        assert now > 1_000_000
        self.given_up.append(job.key)
        await end(self.queue, job)


async def end(queue: Queue, job: Job) -> None:
    await queue.change(job.key, b"done", version=job.version, fence=job.fence, keep=60.0)


async def forever(job: Job, hold: Hold) -> None:
    """Do something that has no end."""
    await asyncio.Event().wait()


def runner_of(
    engine: Memory | Sqlite, hands: Hands, *, slots: int = 8, lease: float = LEASE, grace: float = 10.0
) -> Runner:
    return Runner(hands.queue, engine, hands, slots=slots, lease=lease, grace=grace)


class Between:
    """A queue between a runner and an engine, which fails or waits when a test wants it to.

    Args:
        queue: That of the engine.

    Attributes:
        takes: How many jobs were asked for each time.
        renewals: Which leases were to be prolonged, and in which thread, each time.
        fail_take: What taking raises.
        fail_renew: What prolonging raises.
        on_take: Awaited when jobs have been taken, before anybody gets them.
        on_renew: Awaited before anything is prolonged.
    """

    def __init__(self, queue: Queue) -> None:
        self.takes: list[int] = []
        self.renewals: list[tuple[Mapping[str, tuple[int, float]], str]] = []
        self.fail_take: Exception | None = None
        self.fail_renew: Exception | None = None
        self.on_take: Callable[[], Awaitable[object]] | None = None
        self.on_renew: Callable[[], Awaitable[object]] | None = None
        self._queue = queue
        self.add = queue.add
        self.look = queue.look
        self.change = queue.change
        self.owned = queue.owned
        self.waiting = queue.waiting

    async def take(self, queues: Sequence[str], *, most: int, lease: float, late: float = 0.0) -> Taken:
        self.takes.append(most)
        if self.fail_take is not None:
            raise self.fail_take
        taken = await self._queue.take(queues, most=most, lease=lease, late=late)
        if self.on_take is not None:
            await self.on_take()
        return taken

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        self.renewals.append((dict(leases), threading.current_thread().name))
        if self.fail_renew is not None:
            raise self.fail_renew
        if self.on_renew is not None:
            await self.on_renew()
        return await self._queue.renew(leases)


class Rival:
    """Somebody else, in a thread, who takes a job as soon as that is possible.

    Args:
        queue: Where from.
        seen: Called at once when there is one, in the thread.
    """

    def __init__(self, queue: Queue, seen: Callable[[], object] = lambda: None) -> None:
        self.jobs: list[Job] = []
        self._queue = queue
        self._seen = seen
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Rival:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            taken = done(take(self._queue))
            if taken:
                self._seen()
            self.jobs += taken
            time.sleep(0.002)
