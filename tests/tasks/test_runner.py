"""Runners: taking jobs, leases, shutdown, and jobs without a runner."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from mcpkit.storage import Memory
from mcpkit.storage.jobs_and_heartbeats import Job, Queue
from mcpkit.tasks.queue_polling_and_leases import AbandonedJobs, Lease, LeaseRenewer, Runner
from tests.helpers.engines import done
from tests.helpers.waiting import Clock, until

pytestmark = pytest.mark.long

LINE = "s/task/a"

LEASE = 10_000.0
"""Seconds that no test waits for."""

Run = Callable[[Job, Lease], Awaitable[None]]


async def add(queue: Queue, *keys: str, line: str = LINE) -> None:
    for key in keys:
        added = await queue.add(key, b"", queue=line, owner="", max_open=10_000, max_open_per_owner=10_000)
        assert added == "added"


async def take(queue: Queue) -> list[Job]:
    """Take the ready jobs, as another process would."""
    return (await queue.take([LINE], limit=100, lease=LEASE)).jobs


async def get_job(queue: Queue, key: str) -> Job:
    job = await queue.get_job(key)
    assert job is not None
    return job


class RecordingWork:
    """Work that records the jobs it was given.

    Args:
        queue: Queue of the jobs.
        do: Function called for each job before it ends; nothing by default.

    Attributes:
        cancelled: Keys of cancelled jobs, with the message of the cancellation.
    """

    server = "s"
    abandoned_after = 3600.0

    def __init__(self, queue: Any, do: Run | None = None) -> None:
        self.queue = queue
        self.jobs: list[Job] = []
        self.leases: list[Lease] = []
        self.cancelled: list[tuple[str, object]] = []
        self.running = 0
        self.given_up: list[str] = []
        self._do = do

    def queues(self) -> Sequence[str]:
        return [LINE]

    async def run(self, job: Job, now: float, lease: Lease) -> None:
        assert abs(now - time.time()) < 60
        self.jobs.append(job)
        self.leases.append(lease)
        self.running += 1
        try:
            if self._do is not None:
                await self._do(job, lease)
            await self.end(job)
        except asyncio.CancelledError as error:
            self.cancelled.append((job.key, *error.args))
            if not lease.is_lost:
                await self.queue.change(job.key, b"back", version=job.version, fence=job.fence, due=0.0)
            raise
        finally:
            self.running -= 1

    async def give_up(self, job: Job, now: float) -> None:
        self.given_up.append(job.key)
        await self.end(job)

    async def end(self, job: Job) -> None:
        await self.queue.change(job.key, b"done", version=job.version, fence=job.fence, ttl=60.0)


async def run_forever(job: Job, lease: Lease) -> None:
    await asyncio.Event().wait()


def make_runner(work: RecordingWork, *, slots: int = 8, lease: float = LEASE) -> Runner:
    return Runner(work.queue, work, slots=slots, lease=lease, grace=10.0)


class FaultyQueue:
    """A queue between a runner and an engine, with calls that fail when a test sets `error`.

    Attributes:
        calls: The numbers of calls of `take` and `renew`.
    """

    def __init__(self, queue: Queue) -> None:
        self.calls: Counter[str] = Counter()
        self.error: Exception | None = None
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._queue, name)

        async def call(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            if self.error is not None:
                raise self.error
            return await method(*args, **options)

        return call if name in {"take", "renew"} else method


@contextmanager
def competitor(queue: Queue, on_take: Callable[[], object] = lambda: None) -> Iterator[list[Job]]:
    """Take jobs in a thread as soon as that is possible; `on_take` is called there after each."""
    jobs: list[Job] = []
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.002):
            if taken := done(take(queue)):
                on_take()
            jobs.extend(taken)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield jobs
    finally:
        is_over.set()
        thread.join()


async def test_failing_take_is_logged_and_retried(engine: Memory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcpkit")
    queue = FaultyQueue(engine)
    queue.error = ConnectionError("it is away")
    work = RecordingWork(queue, run_forever)
    async with make_runner(work, slots=3).running():
        await add(engine, "a", "b", "c")
        await until(lambda: queue.calls["take"] > 3)
        queue.error = None
        await until(lambda: work.running == 3)
    assert [record.message for record in caplog.records if record.module == "queue_polling_and_leases"] == [
        "tasks cannot be taken from the queue; mcpkit tries again: it is away",
        "tasks are taken from the queue again",
    ]


# Shutdown


async def test_shutdown_cancels_and_returns_running_jobs(engine: Memory) -> None:
    await add(engine, "a", "b", "c")
    work, tasks = RecordingWork(engine, run_forever), asyncio.all_tasks()
    async with make_runner(work, slots=2).running():
        await until(lambda: work.running == 2)
    assert sorted(work.cancelled) == [("a", "drained"), ("b", "drained")]
    assert asyncio.all_tasks() == tasks
    assert {job.key: job.fence for job in await take(engine)} == {"a": 2, "b": 2, "c": 1}


async def test_shutdown_returns_jobs_that_have_not_begun(engine: Memory) -> None:
    class DrainingQueue(FaultyQueue):
        """Begins the shutdown between the take of a job and its first step."""

        async def take(self, *args: Any, **options: Any) -> Any:
            leased = await engine.take(*args, **options)
            if leased.jobs:
                asyncio.get_running_loop().call_soon(runner.drain, 10.0)
            return leased

    await add(engine, "a")
    work = RecordingWork(DrainingQueue(engine), run_forever)
    runner = make_runner(work)
    async with runner.running():
        await until(lambda: runner.is_draining)
    assert work.jobs == []
    assert [(job.key, job.fence) for job in await take(engine)] == [("a", 2)]


# Leases


async def test_lease_is_renewed_while_the_event_loop_is_blocked(engine: Memory) -> None:
    await add(engine, "a")
    queue = FaultyQueue(engine)

    async def do(job: Job, lease: Lease) -> None:
        while queue.calls["renew"] < 2:
            time.sleep(0.01)

    work = RecordingWork(queue, do)
    async with make_runner(work, lease=2.0).running():
        await until(lambda: work.jobs and work.running == 0)
        assert (await get_job(engine, "a")).value == b"done"
    assert work.cancelled == []


async def test_lease_is_lost_a_tenth_before_its_end(engine: Memory) -> None:
    await add(engine, "a")
    (job,) = await take(engine)
    renewer = LeaseRenewer(engine, 0.6)
    since = time.monotonic()
    try:
        lease = renewer.add(job, since, lambda: None)
        first = lease.lost_at
        assert first == pytest.approx(since + 0.54)
        await until(lambda: lease.lost_at != first)
        assert lease.lost_at <= time.monotonic() + 0.54
    finally:
        await renewer.aclose()


async def test_job_ended_elsewhere_is_cancelled(engine: Memory) -> None:
    await add(engine, "a", "b")
    work = RecordingWork(engine, run_forever)
    async with make_runner(work, lease=2.0).running():
        await until(lambda: len(work.jobs) == 2)
        job = await get_job(engine, "a")
        await engine.change("a", b"cancelled", version=job.version, ttl=60.0)
        await until(lambda: work.cancelled)
        assert work.cancelled == [("a", "lost")]
        assert [lease.is_lost for lease in work.leases] == [True, False]
    assert (await get_job(engine, "a")).value == b"cancelled"


async def test_lease_that_cannot_be_renewed_is_lost_before_others_take_the_job(engine, caplog) -> None:
    await add(engine, "a", "b")
    queue, on_take = FaultyQueue(engine), list[list[bool]]()
    work = RecordingWork(queue, run_forever)
    async with make_runner(work, lease=1.0).running():
        await until(lambda: len(work.jobs) == 2)
        queue.error = ConnectionError("it is away")
        with competitor(engine, lambda: on_take.append([lease.is_lost for lease in work.leases])) as taken:
            await until(lambda: len(taken) == len(work.cancelled) == 2)
    assert all(on_take[0])
    assert sorted(work.cancelled) == [("a", "lost"), ("b", "lost")]
    assert [job.fence for job in taken] == [2, 2]
    for text in ("cannot be renewed", "the lease of task a expired", "the lease of task b expired"):
        assert caplog.text.count(text) == 1


# Orphans


async def test_jobs_of_unknown_queues_fail_after_timeout() -> None:
    clock = Clock(2_000_000.0)
    queue = Memory(clock)
    work = RecordingWork(queue)
    abandoned = AbandonedJobs(queue, work, LEASE, clock)
    gone = [f"gone {number}" for number in range(40)]
    await add(queue, *gone, line="s/task/gone")
    await add(queue, "known")
    await add(queue, "of another", line="s2/task/gone")
    for seconds, expected in ((0, []), (work.abandoned_after - 1, []), (1, gone)):
        clock.now += seconds
        await abandoned.end()
        assert work.given_up == expected
    assert (await get_job(queue, "gone 0")).value == b"done"
