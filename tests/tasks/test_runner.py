"""Runners: taking jobs, leases, shutdown, and jobs without a runner."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from mcpkit.state.queue import Job, LeasedJobs, Queue
from mcpkit.storage import Memory, Sqlite
from mcpkit.tasks.leases import Hold
from mcpkit.tasks.orphans import Orphans
from mcpkit.tasks.runner import Runner
from tests.helpers.clock import Clock
from tests.helpers.engines import done
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.long]

LINE = "s/task/a"

LEASE = 10_000.0
"""Seconds that no test waits for."""

Run = Callable[[Job, Hold], Awaitable[None]]


async def add(queue: Queue, *keys: str, line: str = LINE) -> None:
    for key in keys:
        added = await queue.add(key, b"", queue=line, owner="", max_open=10_000, max_open_per_owner=10_000)
        assert added == "added"


async def take(queue: Queue, line: str = LINE) -> list[Job]:
    """Take what is ready, as somebody else would."""
    return (await queue.take([line], limit=100, lease=LEASE)).jobs


async def look(queue: Queue, key: str) -> Job:
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
    patience = 3600.0

    def __init__(self, queue: Any, do: Run | None = None) -> None:
        self.queue = queue
        self.jobs: list[Job] = []
        self.times: list[float] = []
        self.holds: list[Hold] = []
        self.cancelled: list[tuple[str, object]] = []
        self.running = 0
        self.given_up: list[str] = []
        self._do = do

    @property
    def keys(self) -> list[str]:
        return [job.key for job in self.jobs]

    def queues(self) -> Sequence[str]:
        return [LINE]

    async def run(self, job: Job, now: float, hold: Hold) -> None:
        self.jobs.append(job)
        self.times.append(now)
        self.holds.append(hold)
        self.running += 1
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
        self.given_up.append(job.key)
        await end(self.queue, job)


async def end(queue: Queue, job: Job) -> None:
    await queue.change(job.key, b"done", version=job.version, fence=job.fence, ttl=60.0)


async def run_forever(job: Job, hold: Hold) -> None:
    """Do something that has no end."""
    await asyncio.Event().wait()


def make_runner(
    engine: Memory | Sqlite, work: RecordingWork, *, slots: int = 8, lease: float = LEASE, grace: float = 10.0
) -> Runner:
    return Runner(work.queue, engine, work, slots=slots, lease=lease, grace=grace)


class FaultyQueue:
    """A queue between a runner and an engine whose calls fail when a test sets an error.

    Attributes:
        takes: The number of jobs that each call asked for.
        fail_take: Error raised by `take`.
        fail_renew: Error raised by `renew`.
    """

    def __init__(self, queue: Queue) -> None:
        self.takes: list[int] = []
        self.fail_take: Exception | None = None
        self.fail_renew: Exception | None = None
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        self.takes.append(limit)
        if self.fail_take is not None:
            raise self.fail_take
        return await self._queue.take(queues, limit=limit, lease=lease, ready_for=ready_for)

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        if self.fail_renew is not None:
            raise self.fail_renew
        return await self._queue.renew(leases)


class CompetingTaker:
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

    def __enter__(self) -> CompetingTaker:
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


@pytest.mark.usefixtures("no_polling")
async def test_existing_and_new_jobs_run_once(engine: Memory) -> None:
    await add(engine, "before")
    work = RecordingWork(engine)
    async with make_runner(engine, work).running():
        await until(lambda: work.keys == ["before"])
        await add(engine, "later")
        await until(lambda: work.keys == ["before", "later"])
        await until(lambda: work.running == 0)
    assert [job.fence for job in work.jobs] == [1, 1]
    assert [(await look(engine, key)).value for key in work.keys] == [b"done", b"done"]
    assert all(abs(now - time.time()) < 60 for now in work.times)


async def test_failing_take_is_logged_and_retried(engine: Memory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcpkit")
    queue = FaultyQueue(engine)
    queue.fail_take = ConnectionError("it is away")
    work = RecordingWork(queue, run_forever)
    async with make_runner(engine, work, slots=3).running():
        await add(engine, "a", "b", "c")
        await until(lambda: len(queue.takes) > 3)
        queue.fail_take = None
        await until(lambda: work.running == 3)
    messages = [record.message for record in caplog.records if record.module == "trouble"]
    assert messages == [
        "tasks cannot be taken from the queue; mcpkit tries again: it is away",
        "tasks are taken from the queue again",
    ]
    assert "it is away" in caplog.text


# Shutdown


async def test_shutdown_cancels_and_returns_running_jobs(engine: Memory) -> None:
    await add(engine, "a", "b", "c")
    work, tasks = RecordingWork(engine, run_forever), asyncio.all_tasks()
    async with make_runner(engine, work, slots=2).running():
        await until(lambda: work.running == 2)
    assert sorted(work.cancelled) == [("a", "drained"), ("b", "drained")]
    assert asyncio.all_tasks() == tasks
    jobs = {job.key: job.fence for job in await take(engine)}
    assert jobs == {"a": 2, "b": 2, "c": 1}


async def test_job_that_does_not_end_is_abandoned_after_the_grace(
    engine: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a")
    released, ended = asyncio.Event(), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        try:
            await run_forever(job, hold)
        except asyncio.CancelledError:
            await released.wait()
            ended.set()

    work = RecordingWork(engine, do)
    began = time.monotonic()
    async with make_runner(engine, work, lease=0.5, grace=0.2).running():
        await until(lambda: work.jobs)
    assert time.monotonic() - began >= 0.2
    assert "1 tasks did not end within 0.2 s" in caplog.text
    assert not ended.is_set()
    with CompetingTaker(engine) as rival:
        await until(lambda: rival.jobs)
    assert work.holds[0].is_lost
    released.set()
    await ended.wait()
    await until(lambda: work.running == 0)
    assert (await look(engine, "a")).value == b""


# Leases


async def test_lease_is_renewed_while_the_event_loop_is_blocked(engine: Memory) -> None:
    await add(engine, "a")

    async def do(job: Job, hold: Hold) -> None:
        time.sleep(1.5)

    work = RecordingWork(engine, do)
    async with make_runner(engine, work, lease=1.0).running():
        await until(lambda: work.jobs)
        with CompetingTaker(engine) as rival:
            await until(lambda: work.running == 0)
    assert (work.keys, rival.jobs, work.cancelled) == (["a"], [], [])


async def test_job_ended_elsewhere_is_cancelled(engine: Memory) -> None:
    await add(engine, "a", "b")
    work = RecordingWork(engine, run_forever)
    async with make_runner(engine, work, lease=0.6).running():
        await until(lambda: len(work.jobs) == 2)
        job = await look(engine, "a")
        await engine.change("a", b"cancelled", version=job.version, ttl=60.0)
        await until(lambda: work.cancelled)
        assert work.cancelled == [("a", "lost")]
        assert [hold.is_lost for hold in work.holds] == [True, False]
    assert (await look(engine, "a")).value == b"cancelled"


async def test_lease_that_cannot_be_renewed_is_lost_before_others_take_the_job(
    engine: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a", "b")
    queue, seen = FaultyQueue(engine), list[list[bool]]()
    work = RecordingWork(queue, run_forever)
    async with make_runner(engine, work, lease=1.0).running():
        await until(lambda: len(work.jobs) == 2)
        queue.fail_take = queue.fail_renew = ConnectionError("it is away")
        with CompetingTaker(engine, lambda: seen.append([hold.is_lost for hold in work.holds])) as rival:
            await until(lambda: len(rival.jobs) == 2)
            await until(lambda: len(work.cancelled) == 2)
    assert all(seen[0])
    assert sorted(work.cancelled) == [("a", "lost"), ("b", "lost")]
    assert [job.fence for job in rival.jobs] == [2, 2]
    assert caplog.text.count("cannot be renewed") == 1
    assert (
        caplog.text.count("the lease of task a expired")
        == caplog.text.count("the lease of task b expired")
        == 1
    )


# Orphans


async def test_jobs_of_unknown_queues_fail_after_timeout() -> None:
    clock = Clock(2_000_000.0)
    queue = Memory(clock)
    work = RecordingWork(queue)
    orphans = Orphans(queue, work, LEASE, clock)
    await add(queue, *(f"gone {number}" for number in range(40)), line="s/task/gone")
    await add(queue, "known")
    await add(queue, "of another", line="s2/task/gone")
    await orphans.look()
    clock.now += work.patience - 1
    await orphans.look()
    assert work.given_up == []
    clock.now += 1
    await orphans.look()
    assert work.given_up == [f"gone {number}" for number in range(40)]
    assert (await look(queue, "gone 0")).value == b"done"
