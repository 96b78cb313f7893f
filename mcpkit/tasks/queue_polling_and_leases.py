"""Runner of jobs: takes them from queues, extends their leases, runs them, and hands back unfinished ones."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from .._utils.concurrency import call_in_loop
from ..execution.coroutines import within
from ..execution.worker_threads import end_child, forks
from ..storage.jobs_and_heartbeats import Job, Queue
from .task_records import TaskStorage

logger = logging.getLogger(__name__)

# Cancellation message: another worker may have the job.
LOST = "lost"

# Cancellation message: the process or its worker is shutting down.
DRAINED = "drained"

# Seconds between two polls without a notification: expired leases cause none
_INTERVAL = 1.0

# Seconds in which cancelled jobs may be handed back, however short the grace period is
_MIN_GRACE = 0.25

# Seconds until the first poll after one that has failed; each further one waits for twice as long
_MIN_PAUSE = 0.1

# Seconds before the end of a lease at which it counts as lost, before another worker can take the job
_LEASE_MARGIN = 1.0

# Maximum seconds until leases are extended again after a failure
_RENEWAL_PAUSE = 1.0

# Seconds to wait for the end of the thread of leases
_THREAD_TIMEOUT = 5.0

# Seconds between two checks for abandoned jobs
_ABANDONED_INTERVAL = 30.0

_ABANDONED_BATCH = 16

# Tolerance in seconds between two readings of the time since when the first job of a queue is ready
_CLOCK_TOLERANCE = 1.0


class Work(Protocol):
    """Processing of jobs for a `Runner`, which does not know their content.

    Attributes:
        server: Name of the server: the text before the first `/` of its queue names.
        abandoned_after: Seconds after which the jobs of a queue that is unknown here, and that no worker serves, are
            ended.
    """

    server: str
    abandoned_after: float

    def queues(self) -> Sequence[str]:
        """Return the queues that this process serves now. Call `Runner.wake` when they change."""
        ...

    async def run(self, job: Job, now: float, lease: Lease) -> None:
        """Process a job, and end it or hand it back with a change of its record.

        It is cancelled with the message `lost` when the lease is lost; then it must not change the job. It is cancelled
        with the message `drained` when this process stops running jobs; then it hands the job back, or finishes soon.
        `lease.is_lost` distinguishes the two as well. Another process takes an unchanged job when the lease has ended.

        Args:
            job: The job, with its fencing token.
            now: Time of the queue's clock when it was taken.
            lease: Its lease, which is extended until this method returns.

        Raises:
            Exception: An unexpected error. It is logged, and the job is left until the end of its lease.
        """
        ...

    async def give_up(self, job: Job, now: float) -> None:
        """End an abandoned job.

        Args:
            job: The job, leased for this purpose; the lease is not extended.
            now: Time of the queue's clock at that moment.
        """
        ...


class RepeatedErrorLogger:
    """Logs the first failure of an operation that is retried, and its next success.

    Args:
        failure: Message for the first failure.
        recovery: Message for the first success after a failure.

    Attributes:
        count: Number of failures since the last success.
    """

    def __init__(self, failure: str, recovery: str) -> None:
        self.count = 0
        self._failure = failure
        self._recovery = recovery

    def failed(self, error: Exception) -> None:
        """Record a failure. An error other than OSError is logged with its traceback."""
        if not self.count:
            is_known = isinstance(error, OSError)
            logger.warning("%s: %s", self._failure, error, exc_info=None if is_known else error)
        self.count += 1

    def succeeded(self) -> None:
        """Record a success."""
        if self.count:
            logger.info("%s", self._recovery)
        self.count = 0


# Leases


class Lease:
    """The lease of one running job. Its methods may be called in any thread.

    It is lost when the queue reports that another worker has the job, that it has ended, or that the lease was given
    up. It is also lost when it could not be extended in time. The queue then rejects changes with its fencing token, or
    soon will.

    Args:
        job: The job.
        expires: Time at which it is lost unless it is extended, by `time.monotonic`.
        on_lost: Called once when it is lost, in the thread that notices.
        on_change: Called when the time has changed.

    Attributes:
        key: Key of the job.
        fence: Fencing token of the lease.
        expires: Time at which it is lost unless it is extended.
        limit: Time beyond which it is not extended, even if the job still runs.
    """

    def __init__(
        self, job: Job, expires: float, on_lost: Callable[[], None], on_change: Callable[[], None]
    ) -> None:
        self.key = job.key
        self.fence = job.fence
        self.expires = expires
        self.limit = math.inf
        self._on_lost = on_lost
        self._on_change = on_change
        self._lock = threading.Lock()
        self._is_lost = False
        self._generation = forks.generation

    def limit_to(self, seconds: float) -> None:
        """Extend the lease up to a time from now, and not beyond."""
        self.limit = time.monotonic() + seconds
        self._on_change()

    @property
    def lost_at(self) -> float:
        """Time at which it is lost unless it is extended, by `time.monotonic`."""
        return min(self.expires, self.limit)

    @property
    def is_lost(self) -> bool:
        """True if another worker may have the job; always true in a forked child."""
        return self._is_lost or time.monotonic() >= self.lost_at or self._generation != forks.generation

    def lose(self) -> None:
        """Mark it as lost."""
        with self._lock:
            if self._is_lost:
                return
            self._is_lost = True
        self._on_lost()


class LeaseRenewer:
    """Extends the leases of the jobs of an event loop, in a thread with an event loop of its own.

    So a busy event loop does not lose them. All leases are extended together, three times within the duration of one.
    The thread starts with the first lease.

    Args:
        queue: Queue of the jobs.
        seconds: Duration of a lease.
    """

    def __init__(self, queue: Queue, seconds: float) -> None:
        self._queue = queue
        self._seconds = seconds
        self._margin = min(seconds / 10, _LEASE_MARGIN)
        self._leases: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._ended: Future[None] | None = None  # of the thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self._is_closed = False
        self._errors = RepeatedErrorLogger(
            "the leases of running tasks cannot be renewed; mcpkit tries again",
            "the leases of running tasks are renewed again",
        )

    def add(self, job: Job, since: float, on_lost: Callable[[], None]) -> Lease:
        """Extend the lease of a job from now on, until it is removed.

        Args:
            job: The job.
            since: Time at which it was requested from the queue, by `time.monotonic`.
            on_lost: Called once if the lease is lost, in any thread.
        """
        lease = Lease(job, since + self._seconds - self._margin, on_lost, self._wake)
        with self._lock:
            earlier = self._leases.get(job.key)
            self._leases[job.key] = lease
        if earlier is not None:  # the job was lost and taken here again before the loss was noticed
            earlier.lose()
        if self._ended is None:
            self._ended = Future()
            threading.Thread(target=self._run, args=(self._ended,), name="mcpkit-leases", daemon=True).start()
        self._wake()
        return lease

    def remove(self, lease: Lease) -> None:
        """Stop extending a lease."""
        with self._lock:
            if self._leases.get(lease.key) is lease:
                del self._leases[lease.key]

    async def aclose(self) -> None:
        """Stop extending leases, and wait for the end of the thread, with a timeout."""
        self._is_closed = True
        self._wake()
        if self._ended is not None:
            await asyncio.wait((asyncio.wrap_future(self._ended),), timeout=_THREAD_TIMEOUT)

    def _wake(self) -> None:
        loop, changed = self._loop, self._changed
        if loop is not None and changed is not None:
            call_in_loop(loop, changed.set)

    # In the thread

    def _run(self, ended: Future[None]) -> None:
        try:
            asyncio.run(self._watch())
        finally:
            ended.set_result(None)

    async def _watch(self) -> None:
        """Detect expired leases, while another task extends the rest."""
        changed = self._changed = asyncio.Event()
        loop = self._loop = asyncio.get_running_loop()
        renewing = asyncio.create_task(self._keep_renewing())
        while not self._is_closed:
            changed.clear()
            with self._lock:
                leases = tuple(self._leases.values())
            for lease in leases:
                if lease.is_lost:
                    logger.warning(
                        "the lease of task %s expired before it was renewed; this run is cancelled, and "
                        "another process may run the task",
                        lease.key,
                    )
                    self.remove(lease)
                    lease.lose()
            next_loss = min((lease.lost_at for lease in leases if not lease.is_lost), default=math.inf)
            timer = loop.call_later(max(0.0, next_loss - time.monotonic()), changed.set)
            await changed.wait()
            timer.cancel()
        renewing.cancel()
        await asyncio.wait((renewing,))

    async def _keep_renewing(self) -> None:
        interval = self._seconds / 3
        while not self._is_closed:
            await asyncio.sleep(min(interval / 4, _RENEWAL_PAUSE) if self._errors.count else interval)
            since = time.monotonic()
            with self._lock:
                leases = [lease for lease in self._leases.values() if lease.limit > since]
            if not leases:
                continue
            durations = {each.key: (each.fence, min(self._seconds, each.limit - since)) for each in leases}
            try:
                lost = await within(interval, self._queue.renew(durations))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                self._errors.failed(error)
                continue
            self._errors.succeeded()
            for lease in leases:
                if lease.key in lost or lease.is_lost:
                    self.remove(lease)
                    lease.lose()
                else:
                    # A lease up to its limit needs no margin: other workers get the job later, by the time that this
                    # request has taken.
                    seconds = durations[lease.key][1]
                    lease.expires = since + seconds - (self._margin if seconds == self._seconds else 0.0)


# Running jobs


class Runner:
    """Runs the jobs of some queues in the running event loop, a limited number at a time.

    It takes as many jobs as there are free slots, when the storage notifies it and once a second. While the storage
    does not respond, it retries. Running jobs continue until their leases end.

    Args:
        storage: Storage with the queues, which publishes notifications of new jobs.
        work: Processes the jobs.
        slots: Number of jobs that run at a time.
        lease: Seconds for which no other process takes a job of this one. A thread extends it.
        grace: Seconds for running jobs to end at shutdown; None for no limit.
        ready: Waits until jobs may be taken; returns False if none may be taken at all. None takes jobs at once.

    Attributes:
        is_draining: True if the shutdown has begun.
    """

    def __init__(
        self,
        storage: TaskStorage,
        work: Work,
        *,
        slots: int,
        lease: float,
        grace: float | None = 10.0,
        ready: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._storage = storage
        self._work = work
        self._slots = slots
        self._lease = lease
        self._grace = grace
        self._ready = ready
        self._loop = asyncio.get_running_loop()
        self._generation = forks.generation
        self._leases = LeaseRenewer(storage, lease)
        self._jobs: dict[asyncio.Task[None], Job | None] = {}  # None from the first step of a task on
        self._subscriptions: dict[str, Callable[[], None]] = {}
        self._changed = asyncio.Event()
        self._is_due = True  # there may be jobs to take
        self._users = 0  # contexts of `running`
        self._leaving = 0  # contexts that are about to end
        self._tasks: list[asyncio.Task[None]] = []  # that take jobs, and end abandoned ones
        self._is_ready = False
        self._draining: asyncio.Task[None] | None = None
        self._errors = RepeatedErrorLogger(
            "tasks cannot be taken from the queue; mcpkit tries again", "tasks are taken from the queue again"
        )

    @property
    def is_draining(self) -> bool:
        """True if the shutdown has begun."""
        return self._draining is not None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Take and run jobs while the context, or another one, is active.

        At the end of the last one, no more jobs are taken, and running jobs are cancelled with the message `drained`.
        Jobs that were taken and have not begun are handed back. A job that has not ended after the grace period
        continues without a lease.
        """
        if not self._users:
            self._tasks.append(self._loop.create_task(self._keep_taking(), name="mcpkit-taking"))
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._leaving = max(0, self._leaving - 1)
            if self._users == 0:
                draining = self._begin_drain(self._grace)
                try:
                    await asyncio.shield(draining)
                except asyncio.CancelledError:  # then the caller does not wait for running jobs any longer
                    draining.cancel()
                    await asyncio.wait((draining,))
                    raise

    def drain(self, grace: float | None) -> None:
        """Announce that a context of `running` is about to end. The last one begins the shutdown.

        Args:
            grace: Seconds from now for running jobs to end; None for no limit.
        """
        self._leaving += 1
        if self._leaving >= self._users:
            self._begin_drain(grace)

    def wake(self) -> None:
        """Poll the queues now; from any thread."""
        if not self._is_due:
            call_in_loop(self._loop, self._poll)

    def _poll(self) -> None:
        self._is_due = True
        self._changed.set()

    # Shutdown

    def _begin_drain(self, grace: float | None) -> asyncio.Task[None]:
        """Take no more jobs, and cancel the running ones, unless that has begun."""
        if self._draining is None:
            pending = set(self._tasks)
            for task, job in tuple(self._jobs.items()):
                task.cancel(DRAINED)
                pending.add(task)
                if job is not None:
                    pending.add(self._loop.create_task(self._return_to_queue(job)))
            # Jobs that are being taken are handed back, so the task that takes them is not cancelled.
            for task in self._tasks[1:] if self._is_ready else self._tasks:
                task.cancel()
            self._changed.set()
            self._draining = self._loop.create_task(self._drain(pending, grace), name="mcpkit-draining")
        return self._draining

    async def _drain(self, pending: Collection[asyncio.Task[None]], grace: float | None) -> None:
        try:
            if pending:
                await asyncio.wait(pending, timeout=None if grace is None else max(grace, _MIN_GRACE))
            if self._jobs:
                logger.warning(
                    "%d tasks did not end within %g s; another process can run them when their leases expire",
                    len(self._jobs),
                    grace,
                )
        finally:
            for task in self._tasks:
                task.cancel()
            for unsubscribe in self._subscriptions.values():
                unsubscribe()
            await self._leases.aclose()

    async def _return_to_queue(self, job: Job) -> None:
        """Let other processes take a job that has not begun here."""
        try:
            await self._storage.change(job.key, job.value, version=job.version, fence=job.fence, due=0.0)
        except OSError:  # then they take it when the lease is over
            logger.warning(
                "the task %s could not be returned to the queue; another process can run it when its lease expires",
                job.key,
                exc_info=True,
            )

    # Taking

    async def _keep_taking(self) -> None:
        if self._ready is not None and not await self._ready():
            return
        self._is_ready = True
        abandoned = AbandonedJobs(self._storage, self._work, self._lease)
        self._tasks.append(self._loop.create_task(abandoned.keep_ending(), name="mcpkit-abandoned"))
        while self._draining is None and self._generation == forks.generation:
            self._changed.clear()
            free = self._slots - len(self._jobs)
            pause = min(_INTERVAL, self._lease / 2)
            if self._is_due and free > 0:
                self._is_due = False
                try:
                    if await self._take(free):
                        self._poll()
                    self._errors.succeeded()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                    self._errors.failed(error)
                    pause = min(_MIN_PAUSE * 2 ** min(self._errors.count, 10), _INTERVAL)
            timer = self._loop.call_later(pause * random.uniform(0.5, 1.0), self._poll)
            await self._changed.wait()
            timer.cancel()

    async def _take(self, free: int) -> bool:
        """Take jobs for the free slots. Return True if there may be more."""
        queues = tuple(self._work.queues())
        for queue in self._subscriptions.keys() - set(queues):
            self._subscriptions.pop(queue)()
        new = [queue for queue in queues if queue not in self._subscriptions]
        for queue in new:
            self._subscriptions[queue] = self._storage.subscribe(queue, lambda _: self.wake(), self.wake)
        if new:
            await self._storage.listening()
        if not queues:
            return False
        since = time.monotonic()
        leased = await self._storage.take(queues, limit=free, lease=self._lease)
        for job in leased.jobs:
            if self._draining is not None:
                await self._return_to_queue(job)
            else:
                self._start(job, leased.now, since)
        return len(leased.jobs) >= free

    def _start(self, job: Job, now: float, since: float) -> None:
        lease = self._leases.add(job, since, lambda: call_in_loop(self._loop, task.cancel, LOST))
        task = self._loop.create_task(self._run(job, now, lease), name=f"mcpkit-job {job.key}")
        self._jobs.setdefault(task, job)
        task.add_done_callback(partial(self._on_end, lease))

    async def _run(self, job: Job, now: float, lease: Lease) -> None:
        task = asyncio.current_task()
        assert task is not None, "a job has a task of its own"
        self._jobs[task] = None
        error: BaseException | None = None
        try:
            await self._work.run(job, now, lease)
        except BaseException as problem:
            error = problem
            raise
        finally:
            if self._generation != forks.generation:
                end_child(error)
            del error

    def _on_end(self, lease: Lease, task: asyncio.Task[None]) -> None:
        self._leases.remove(lease)
        del self._jobs[task]
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "running the task %s failed; another process can run it when its lease expires",
                lease.key,
                exc_info=error,
            )


class AbandonedJobs:
    """Ends jobs of queues that no worker has served for long and that this process does not know.

    A queue counts as served if its first job was taken meanwhile, however long the others have waited.

    Args:
        queue: Queue of the jobs.
        work: Ends them.
        lease: Duration of the lease in seconds.
        clock: Returns the time in seconds, from any start.
    """

    def __init__(
        self, queue: Queue, work: Work, lease: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue = queue
        self._work = work
        self._lease = lease
        self._clock = clock
        self._waiting: dict[str, tuple[float, float]] = {}
        """By queue, the time at which its first job became ready, and the time since which that is known here."""

    async def keep_ending(self) -> None:
        """End abandoned jobs now and then, until cancelled."""
        errors = RepeatedErrorLogger(
            "the queue cannot be checked for tasks that no worker runs; mcpkit tries again",
            "the queue is checked again for tasks that no worker runs",
        )
        while True:
            pause = min(_ABANDONED_INTERVAL, self._work.abandoned_after / 2)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            try:
                await self.end()
                errors.succeeded()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                errors.failed(error)

    async def end(self) -> None:
        """End the jobs that no worker has taken for long.

        Raises:
            OSError: The storage does not answer.
        """
        stats = await self._queue.list_queues(self._work.server)
        now, known, before = self._clock(), set(self._work.queues()), self._waiting
        self._waiting = {}
        for each in stats:
            if each.ready and each.queue not in known:
                ready_since = now - each.oldest
                earlier, since = before.get(each.queue, (ready_since, now))
                is_same = abs(earlier - ready_since) < _CLOCK_TOLERANCE
                self._waiting[each.queue] = (ready_since, since if is_same else now)
        age = self._work.abandoned_after
        queues = [queue for queue, (_, since) in self._waiting.items() if now - since >= age]
        while queues:
            leased = await self._queue.take(queues, limit=_ABANDONED_BATCH, lease=self._lease, ready_for=age)
            for job in leased.jobs:
                await self._work.give_up(job, leased.now)
            if len(leased.jobs) < _ABANDONED_BATCH:
                return
