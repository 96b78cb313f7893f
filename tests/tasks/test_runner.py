"""Runners: taking jobs, leases, shutdown, and jobs without a runner."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from mcpkit import Memory
from mcpkit.state.queue import Job
from mcpkit.tasks.leases import Hold, Leases
from mcpkit.tasks.orphans import Orphans
from tests.helpers.clock import Clock
from tests.helpers.hands import LEASE, Between, Hands, Rival, add, end, forever, look, runner_of, take
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.long]

OTHER = "s/task/b"


@pytest.mark.usefixtures("no_polling")
async def test_existing_and_new_jobs_run_once(engine: Memory) -> None:
    await add(engine, "before")
    work = Hands(engine)
    async with runner_of(engine, work).running():
        await until(lambda: work.keys == ["before"])
        await add(engine, "later")
        await until(lambda: work.keys == ["before", "later"])
        await until(lambda: work.running == 0)
    assert [job.fence for job in work.jobs] == [1, 1]
    assert [(await look(engine, key)).value for key in work.keys] == [b"done", b"done"]
    assert all(abs(now - time.time()) < 60 for now in work.times)


@pytest.mark.usefixtures("no_polling")
async def test_slots_limit_the_jobs_that_run_and_are_taken(engine: Memory) -> None:
    keys = [f"job {number:02}" for number in range(20)]
    await add(engine, *keys)
    queue, released = Between(engine), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        await released.wait()

    work = Hands(queue, do)
    async with runner_of(engine, work, slots=3).running():
        await until(lambda: work.running == 3)
        assert queue.takes == [3]
        released.set()
        await until(lambda: len(work.jobs) == 20 and work.running == 0)
    assert sorted(work.keys) == keys
    assert work.most == 3


@pytest.mark.usefixtures("no_polling")
async def test_queues_may_change_while_running(engine: Memory) -> None:
    await add(engine, "before", line=OTHER)
    work = Hands(engine)
    runner = runner_of(engine, work)
    async with runner.running():
        await add(engine, "a")
        await until(lambda: work.keys == ["a"])
        work.lines = [OTHER]
        runner.wake()
        await until(lambda: work.keys == ["a", "before"])
        await add(engine, "b")
        await add(engine, "later", line=OTHER)
        await until(lambda: work.keys == ["a", "before", "later"])
        work.lines = []
        runner.wake()
    assert [job.key for job in await take(engine)] == ["b"]


@pytest.mark.usefixtures("no_polling")
async def test_gap_in_messages_makes_the_runner_look() -> None:
    class DeafMemory(Memory):
        """An engine whose bus loses all, and says so when it is asked."""

        messages: Callable[[], None]

        def subscribe(
            self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
        ) -> Callable[[], None]:
            assert missed is not None
            self.on_gap = missed
            return lambda: None

    engine = DeafMemory()
    queue = Between(engine)
    work = Hands(queue)
    async with runner_of(engine, work).running():
        await until(lambda: queue.takes)
        await add(engine, "a")
        engine.on_gap()
        await until(lambda: work.keys == ["a"])


async def test_failing_take_is_logged_and_retried(engine: Memory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcpkit")
    queue = Between(engine)
    queue.fail_take = ConnectionError("it is away")
    work = Hands(queue, forever)
    async with runner_of(engine, work, slots=3).running():
        await add(engine, "a", "b", "c")
        await until(lambda: len(queue.takes) > 3)
        queue.fail_take = None
        await until(lambda: work.running == 3)
    messages = [record.message for record in caplog.records if record.module == "trouble"]
    assert messages == ["no jobs can be taken, which is tried again: it is away", "jobs are taken again"]
    assert "it is away" in caplog.text


async def test_failing_work_is_logged_and_retried_after_the_lease(
    engine: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a")

    async def do(job: Job, hold: Hold) -> None:
        if job.fence < 4:
            raise LookupError("it is not there")

    work = Hands(engine, do)
    async with runner_of(engine, work, slots=1, lease=0.2).running():
        await until(lambda: len(work.jobs) == 4 and work.running == 0)
    assert [job.fence for job in work.jobs] == [1, 2, 3, 4]
    assert caplog.text.count("the work on a failed") == 3
    assert "it is not there" in caplog.text


# Shutdown


async def test_shutdown_cancels_and_returns_running_jobs(engine: Memory) -> None:
    await add(engine, "a", "b", "c")
    work, tasks = Hands(engine, forever), asyncio.all_tasks()
    async with runner_of(engine, work, slots=2).running():
        await until(lambda: work.running == 2)
    assert sorted(work.cancelled) == [("a", "drained"), ("b", "drained")]
    assert asyncio.all_tasks() == tasks
    jobs = {job.key: job.fence for job in await take(engine)}
    assert jobs == {"a": 2, "b": 2, "c": 1}


async def test_jobs_taken_during_shutdown_are_returned(engine: Memory) -> None:
    await add(engine, "a", "b")
    queue, taken, released = Between(engine), asyncio.Event(), asyncio.Event()

    async def on_take() -> None:
        taken.set()
        await released.wait()

    queue.on_take = on_take
    work = Hands(queue)
    async with runner_of(engine, work).running():
        await taken.wait()
        asyncio.get_running_loop().call_later(0.05, released.set)
    assert work.jobs == []
    assert sorted((job.key, job.fence) for job in await take(engine)) == [("a", 2), ("b", 2)]


async def test_job_that_does_not_end_is_abandoned_after_the_grace(
    engine: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a")
    released, ended = asyncio.Event(), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        try:
            await forever(job, hold)
        except asyncio.CancelledError:
            await released.wait()
            ended.set()

    work = Hands(engine, do)
    began = time.monotonic()
    async with runner_of(engine, work, lease=0.5, grace=0.2).running():
        await until(lambda: work.jobs)
    assert time.monotonic() - began >= 0.2
    assert "1 jobs have not ended within 0.2 s" in caplog.text
    assert not ended.is_set()
    with Rival(engine) as rival:
        await until(lambda: rival.jobs)
    assert work.holds[0].is_lost
    released.set()
    await ended.wait()
    await until(lambda: work.running == 0)
    assert (await look(engine, "a")).value == b""


async def test_drain_returns_jobs_before_shutdown(engine: Memory) -> None:
    await add(engine, "a")
    work = Hands(engine, forever)
    runner = runner_of(engine, work)
    runner.drain(10.0)  # before it runs, that does nothing
    async with runner.running():
        await until(lambda: work.jobs)
        runner.drain(10.0)
        runner.drain(10.0)
        await until(lambda: work.cancelled)
        await add(engine, "b")
        runner.wake()
        jobs: list[str] = []
        while len(jobs) < 2:
            jobs += [job.key for job in await take(engine)]
    assert sorted(jobs) == ["a", "b"]
    assert work.keys == ["a"]


# Leases


async def test_lease_is_renewed_while_the_event_loop_is_blocked(engine: Memory) -> None:
    await add(engine, "a")

    async def do(job: Job, hold: Hold) -> None:
        time.sleep(1.5)

    work = Hands(engine, do)
    async with runner_of(engine, work, lease=1.0).running():
        await until(lambda: work.jobs)
        with Rival(engine) as rival:
            await until(lambda: work.running == 0)
    assert (work.keys, rival.jobs, work.cancelled) == (["a"], [], [])


async def test_all_leases_are_renewed_together_by_a_thread(engine: Memory) -> None:
    queue, released = Between(engine), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        await released.wait()

    work = Hands(queue, do)
    async with runner_of(engine, work, lease=1.2).running():
        await asyncio.sleep(0.5)
        assert queue.renewals == []
        await add(engine, "a", "b", "c")
        await until(lambda: len(work.jobs) == 3)
        before = len(queue.renewals)
        began = time.monotonic()
        await until(lambda: len(queue.renewals) >= before + 6)
        assert time.monotonic() - began > 1.2
        released.set()
        await until(lambda: work.running == 0)
        after = len(queue.renewals)
        await asyncio.sleep(0.5)
        assert len(queue.renewals) <= after + 1  # one may have been on its way
    for leases, thread in queue.renewals[before + 1 : after]:
        assert leases == {"a": (1, 1.2), "b": (1, 1.2), "c": (1, 1.2)}
        assert thread == "mcpkit-leases"


async def test_lease_ends_at_its_deadline(engine: Memory) -> None:
    await add(engine, "a")
    queue, seen = Between(engine), list[bool]()
    deadlines: list[float] = []

    async def do(job: Job, hold: Hold) -> None:
        hold.until(1.2)
        deadlines.append(time.monotonic() + 1.2)
        await forever(job, hold)

    work = Hands(queue, do)
    async with runner_of(engine, work, lease=0.9).running():
        await until(lambda: work.jobs)
        began = time.monotonic()
        with Rival(engine, lambda: seen.append(work.holds[0].is_lost)) as rival:
            await until(lambda: rival.jobs)
            assert time.monotonic() - began >= 1
            await until(lambda: work.cancelled)
    assert seen[0]
    assert set(work.cancelled) == {("a", "lost")}  # more than once where it has been quicker than the rival
    assert all(seconds <= 0.9 for leases, _ in queue.renewals for _, seconds in leases.values())
    assert queue.renewals[-1][0]["a"][1] < 0.9


async def test_job_ended_elsewhere_is_cancelled(engine: Memory) -> None:
    await add(engine, "a", "b")
    work = Hands(engine, forever)
    async with runner_of(engine, work, lease=0.6).running():
        await until(lambda: len(work.jobs) == 2)
        job = await look(engine, "a")
        await engine.change("a", b"cancelled", version=job.version, keep=60.0)
        await until(lambda: work.cancelled)
        assert work.cancelled == [("a", "lost")]
        assert [hold.is_lost for hold in work.holds] == [True, False]
    assert (await look(engine, "a")).value == b"cancelled"


async def test_lease_that_cannot_be_renewed_is_lost_before_others_take_the_job(
    engine: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a", "b")
    queue, seen = Between(engine), list[list[bool]]()
    work = Hands(queue, forever)
    async with runner_of(engine, work, lease=1.0).running():
        await until(lambda: len(work.jobs) == 2)
        queue.fail_take = queue.fail_renew = ConnectionError("it is away")
        with Rival(engine, lambda: seen.append([hold.is_lost for hold in work.holds])) as rival:
            await until(lambda: len(rival.jobs) == 2)
            await until(lambda: len(work.cancelled) == 2)
    assert all(seen[0])
    assert sorted(work.cancelled) == [("a", "lost"), ("b", "lost")]
    assert [job.fence for job in rival.jobs] == [2, 2]
    assert caplog.text.count("cannot be prolonged") == 1
    assert caplog.text.count("the lease of a is over") == caplog.text.count("the lease of b is over") == 1


async def test_later_lease_of_a_job_replaces_the_earlier(engine: Memory) -> None:
    await add(engine, "a")
    (before,) = (await engine.take(["s/task/a"], most=1, lease=0.01)).jobs
    lost: list[int] = []
    leases = Leases(engine, LEASE)
    first = leases.hold(before, time.monotonic(), lambda: lost.append(1))
    await until(lambda: not lost and not first.is_lost)
    taken: list[Job] = []
    while not taken:
        taken = await take(engine)
    second = leases.hold(taken[0], time.monotonic(), lambda: lost.append(2))
    assert (first.is_lost, second.is_lost, lost) == (True, False, [1])
    leases.release(first)
    first.lose()
    assert lost == [1]
    await leases.aclose()
    await end(engine, taken[0])


# Orphans

GONE = "s/task/gone"


@pytest.fixture
def clock() -> Clock:
    return Clock(2_000_000.0)


@pytest.fixture
def queue(clock: Clock) -> Memory:
    """An engine with the clock of the test."""
    return Memory(clock)


async def test_jobs_of_unknown_queues_are_given_up_after_the_patience(queue: Memory, clock: Clock) -> None:
    work = Hands(queue, patience=100)
    orphans = Orphans(queue, work, LEASE, clock)
    await add(queue, *(f"gone {number}" for number in range(40)), line=GONE)
    await add(queue, "known")
    await add(queue, "of another", line="s2/task/gone")
    await orphans.look()
    clock.now += 99
    await orphans.look()
    assert work.given_up == []
    clock.now += 1
    await add(queue, "later", line=GONE)
    await orphans.look()
    assert work.given_up == [f"gone {number}" for number in range(40)]
    assert (await look(queue, "gone 0")).value == b"done"
    clock.now += 100
    await orphans.look()
    assert "later" not in work.given_up  # whose queue has been seen to be still since now
    clock.now += 100
    await orphans.look()
    assert work.given_up[40:] == ["later"]
