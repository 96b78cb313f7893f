"""Runner of jobs: takes them from a queue, runs a limited number at a time, and hands back unfinished ones."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from ..execution import forks
from ..storage.base import PubSub
from ..storage.queue import Job, Queue
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
    """Processing of jobs for a `Runner`, which does not know their content.

    Call `Runner.wake` when its queues change.
    """

    async def run(self, job: Job, now: float, hold: Hold) -> None:
        """Process a job, and end it or hand it back with a change of its record.

        It is cancelled with the message `lost` when the lease is lost; then it must not change the job. It is cancelled
        with the message `drained` when this process stops running jobs; then it hands the job back, or finishes soon.
        `hold.is_lost` distinguishes the two as well. Another process takes an unchanged job when the lease has ended.

        Args:
            job: The job, with its fencing token.
            now: Time of the queue's clock when it was taken.
            hold: Its lease, which is extended until this method returns.

        Raises:
            Exception: An unexpected error. It is logged, and the job is left until the end of its lease.
        """
        ...


class Runner:
    """Runs the jobs of some queues in the running event loop, a limited number at a time.

    It takes as many jobs as there are free slots, when the broker notifies it and once a second. While the engine does
    not respond, it retries. Running jobs continue until their leases end.

    Args:
        queue: Queue of the jobs.
        broker: Publishes notifications of new jobs.
        work: Processes the jobs.
        slots: Number of jobs that run at a time.
        lease: Seconds for which no other process takes a job of this one. A thread extends it.
        grace: Seconds for running jobs to end at shutdown; None for no limit.
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
        """Take and run jobs while the context is active.

        At its end, no more jobs are taken, and running jobs are cancelled with the message `drained`. Jobs that were
        taken and have not begun are handed back. A job that has not ended after the grace period continues without a
        lease.
        """
        here = self._here = _Running(self._queue, self._broker, self._work, self._slots, self._lease)
        try:
            yield
        finally:
            self._here = None
            here.drain(self._grace)
            await here.ended()

    def drain(self, grace: float | None) -> None:
        """Begin the shutdown that the end of `running` waits for; in the event loop.

        Args:
            grace: Seconds from now for running jobs to end; None for no limit.
        """
        if self._here is not None:
            self._here.drain(grace)

    def wake(self) -> None:
        """Look for jobs now; from any thread."""
        if self._here is not None:
            self._here.wake()


class _Run:
    """One running job.

    Attributes:
        job: The job.
        hold: Its lease.
        task: The task that runs it.
        has_begun: Whether it has made its first step.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.hold: Hold
        self.task: asyncio.Task[None]
        self.has_begun = False


class _Running:
    """Takes and runs jobs, from its creation until it is drained."""

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
        """Look for jobs now; from any thread."""
        if not self._is_due:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._is_due = True
        self._changed.set()

    def drain(self, grace: float | None) -> None:
        """Take no more jobs, and cancel the running ones, unless that has begun."""
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
        """Wait until it is drained. A cancelled caller does not wait for running jobs any longer."""
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
        """Take jobs for the free slots. Return True if there may be more."""
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
        """Subscribe to these queues, and unsubscribe from others. Return True if any of them is new."""
        for queue in self._unsubscribe.keys() - set(queues):
            self._unsubscribe.pop(queue)()
        new = [queue for queue in queues if queue not in self._unsubscribe]
        for queue in new:
            self._unsubscribe[queue] = self._broker.subscribe(queue, lambda _: self.wake(), self.wake)
        return bool(new)

    async def _hand_back(self, job: Job) -> None:
        """Let other processes take a job that has not begun here."""
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
