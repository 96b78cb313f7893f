"""Works on jobs: takes them from a queue, runs so many at a time, and hands back what it does not finish."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from ..calls.workers import forks
from ..state.broker import PubSub
from ..state.queue import Job, Queue
from .leases import Hold, Leases
from .orphans import Giving, Orphans
from .trouble import Trouble

logger = logging.getLogger(__name__)

LOST = "lost"
"""Cancellation message: another worker may have the job."""

DRAINED = "drained"
"""Cancellation message: the process or its worker is shutting down."""

_INTERVAL = 1.0
"""Seconds between two polls without a notification: expired leases cause none."""

_LEAVE = 0.25
"""Seconds in which what was cancelled may be handed back, however short the grace is."""

_SHORTEST_PAUSE = 0.1
"""Seconds until the first look after one that has failed; each further one waits for twice as long."""


class Work(Giving, Protocol):
    """What is done with jobs: the other half of a `Runner`, which knows nothing of what is in them.

    Where its queues change, `Runner.wake` is to be called.
    """

    async def run(self, job: Job, now: float, hold: Hold) -> None:
        """Work on a job, and end it, or hand it back, by a change.

        It is cancelled with the message `lost` when the lease is lost: then it leaves the job alone. It is cancelled
        with the message `drained` when no more is to be run here: then it hands the job back, or finishes soon.
        `hold.is_lost` tells both apart, too. What it leaves as it is somebody takes when the lease is over.

        Args:
            job: The job, with the fence under which it was taken.
            now: What the clock of the queue said then.
            hold: Its lease, which is prolonged until this returns.

        Raises:
            Exception: Nothing that is expected: it is logged, and the job left to the end of its lease.
        """
        ...


class Runner:
    """Works on the jobs of some queues in the running event loop, so many at a time.

    It takes as many at once as there is room for, when it hears that there are any, and looks once a second besides.
    While the engine does not answer it goes on trying; what runs goes on until its lease is over.

    Args:
        queue: Where the jobs are.
        broker: What says that there are any.
        work: What is done with them.
        slots: How many run at a time.
        lease: For how many seconds nobody else gets one that was taken here, unless that is prolonged, which a thread
            does.
        grace: Seconds in which they have to end when no more are to be run; None for as long as it takes.
    """

    def __init__(
        self,
        queue: Queue,
        broker: PubSub,
        work: Work,
        *,
        slots: int,
        lease: float,
        grace: float | None = 10.0,
    ) -> None:
        self._queue = queue
        self._broker = broker
        self._work = work
        self._slots = slots
        self._lease = lease
        self._grace = grace
        self._here: _Running | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Take jobs and run them, in a block.

        At its end no more are taken, and what runs is cancelled with the message `drained`. Whatever has been taken
        and not begun is handed back. What has not ended when the grace is over goes on without a lease.
        """
        here = self._here = _Running(self._queue, self._broker, self._work, self._slots, self._lease)
        try:
            yield
        finally:
            self._here = None
            here.drain(self._grace)
            await here.ended()

    def drain(self, grace: float | None) -> None:
        """Begin with what the end of `running` does, in the event loop; there it is waited for.

        Args:
            grace: Seconds from now in which what runs has to end; None for as long as it takes.
        """
        if self._here is not None:
            self._here.drain(grace)

    def wake(self) -> None:
        """Look whether there is anything to take, now; from any thread."""
        if self._here is not None:
            self._here.wake()


class _Run:
    """One job that runs.

    Attributes:
        job: The job.
        hold: Its lease.
        task: What runs it.
        has_begun: Whether it has made its first step.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.hold: Hold
        self.task: asyncio.Task[None]
        self.has_begun = False


class _Running:
    """What takes and runs jobs, from its making until it is drained."""

    def __init__(self, queue: Queue, broker: PubSub, work: Work, slots: int, lease: float) -> None:
        self._queue = queue
        self._broker = broker
        self._work = work
        self._slots = slots
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        self._generation = forks.generation
        self._leases = Leases(queue, lease)
        self._runs: set[_Run] = set()
        self._unsubscribe: dict[str, Callable[[], None]] = {}
        self._changed = asyncio.Event()
        self._is_due = True  # there may be something to take
        self._draining: asyncio.Task[None] | None = None
        self._trouble = Trouble(
            "tasks cannot be taken from the queue; mcpkit tries again", "tasks are taken from the queue again"
        )
        self._taking = asyncio.create_task(self._keep_taking(), name="mcpkit-taking")
        orphans = Orphans(queue, work, lease)
        self._giving_up = asyncio.create_task(orphans.keep_looking(), name="mcpkit-orphans")

    def wake(self) -> None:
        """Look whether there is anything to take, now; from any thread."""
        if not self._is_due:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._is_due = True
        self._changed.set()

    def drain(self, grace: float | None) -> None:
        """Take no more, and cancel what runs, unless that has begun."""
        if self._draining is not None:
            return
        waited = {self._taking, self._giving_up}
        for run in tuple(self._runs):
            run.task.cancel(DRAINED)
            waited.add(run.task)
            if not run.has_begun:
                waited.add(self._loop.create_task(self._hand_back(run.job)))
        self._giving_up.cancel()
        self._changed.set()
        self._draining = self._loop.create_task(self._drain(waited, grace), name="mcpkit-draining")

    async def ended(self) -> None:
        """Wait until it is drained; whoever is cancelled meanwhile waits no longer for what runs."""
        assert self._draining is not None, "drain() must be called first"
        try:
            await asyncio.shield(self._draining)
        except asyncio.CancelledError:
            self._draining.cancel()
            await asyncio.wait((self._draining,))
            raise

    async def _drain(self, waited: Collection[asyncio.Task[None]], grace: float | None) -> None:
        try:
            await asyncio.wait(waited, timeout=None if grace is None else max(grace, _LEAVE))
            if self._runs:
                logger.warning(
                    "%d tasks did not end within %g s; another process can run them when their leases expire",
                    len(self._runs),
                    grace,
                )
        finally:
            self._taking.cancel()
            for unsubscribe in self._unsubscribe.values():
                unsubscribe()
            await self._leases.aclose()

    # Taking

    async def _keep_taking(self) -> None:
        while self._draining is None and self._generation == forks.generation:
            self._changed.clear()
            free = self._slots - len(self._runs)
            pause = min(_INTERVAL, self._lease / 2)
            if self._is_due and free > 0:
                self._is_due = False
                try:
                    if await self._take(free):
                        self._look()
                    self._trouble.end()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                    self._trouble.begin(error)
                    pause = min(_SHORTEST_PAUSE * 2 ** min(self._trouble.count, 10), _INTERVAL)
            timer = self._loop.call_later(pause * random.uniform(0.5, 1.0), self._look)
            await self._changed.wait()
            timer.cancel()

    async def _take(self, free: int) -> bool:
        """Take as many jobs as there is room for, and say whether there may be more."""
        queues = tuple(self._work.queues())
        if self._follow(queues):
            await self._broker.listening()
        if not queues:
            return False
        since = time.monotonic()
        taken = await self._queue.take(queues, limit=free, lease=self._lease)
        for job in taken.jobs:
            if self._draining is not None:
                await self._hand_back(job)
            else:
                self._start(job, taken.now, since)
        return len(taken.jobs) >= free

    def _follow(self, queues: Collection[str]) -> bool:
        """Hear of what gets ready in these queues, and no others; say whether any of them is new."""
        for queue in self._unsubscribe.keys() - set(queues):
            self._unsubscribe.pop(queue)()
        new = [queue for queue in queues if queue not in self._unsubscribe]
        for queue in new:
            self._unsubscribe[queue] = self._broker.subscribe(queue, lambda _: self.wake(), self.wake)
        return bool(new)

    async def _hand_back(self, job: Job) -> None:
        """Let others take a job that has not begun here."""
        try:
            await self._queue.change(job.key, job.value, version=job.version, fence=job.fence, due=0.0)
        except OSError:  # then they take it when the lease is over
            logger.warning(
                "the task %s could not be returned to the queue; another process can run it when its lease "
                "expires",
                job.key,
                exc_info=True,
            )

    # Running

    def _start(self, job: Job, now: float, since: float) -> None:
        run = _Run(job)
        run.hold = self._leases.hold(job, since, lambda: self._lose(run))
        run.task = self._loop.create_task(self._run(run, now), name=f"mcpkit-job {job.key}")
        self._runs.add(run)
        run.task.add_done_callback(lambda _: self._ended(run))

    async def _run(self, run: _Run, now: float) -> None:
        run.has_begun = True
        error: BaseException | None = None
        try:
            await self._work.run(run.job, now, run.hold)
        except BaseException as problem:
            error = problem
            raise
        finally:
            if self._generation != forks.generation:
                forks.end_child(error)
            del error

    def _lose(self, run: _Run) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(lambda: run.task.cancel(LOST))

    def _ended(self, run: _Run) -> None:
        self._leases.release(run.hold)
        self._runs.discard(run)
        self._changed.set()
        if not run.task.cancelled() and (error := run.task.exception()) is not None:
            logger.error(
                "running the task %s failed; another process can run it when its lease expires",
                run.job.key,
                exc_info=error,
            )
