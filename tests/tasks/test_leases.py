"""Leases are prolonged whatever the event loop does, and taken for lost before anybody else has the job."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.state.queue import Job
from mcpkit.tasks.leases import Hold, Leases
from tests.helpers.hands import LEASE, Between, Hands, Rival, add, end, forever, look, runner_of, take
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def test_nobody_else_gets_a_job_while_it_holds_up_the_event_loop(engine: Memory | Sqlite) -> None:
    await add(engine, "a")

    async def do(job: Job, hold: Hold) -> None:
        time.sleep(4.5)

    hands = Hands(engine, do)
    async with runner_of(engine, hands, lease=2.0).running():
        await until(lambda: hands.jobs)
        with Rival(engine) as rival:
            await until(lambda: hands.running == 0)
    assert (hands.keys, rival.jobs, hands.cancelled) == (["a"], [], [])


async def test_all_leases_are_prolonged_at_once_by_a_thread_and_only_while_there_are_any(
    engine: Memory | Sqlite,
) -> None:
    queue, released = Between(engine), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        await released.wait()

    hands = Hands(queue, do)
    async with runner_of(engine, hands, lease=1.2).running():
        await asyncio.sleep(0.5)
        assert queue.renewals == []
        await add(engine, "a", "b", "c")
        await until(lambda: len(hands.jobs) == 3)
        before = len(queue.renewals)
        began = time.monotonic()
        await until(lambda: len(queue.renewals) >= before + 6)
        assert time.monotonic() - began > 1.2
        released.set()
        await until(lambda: hands.running == 0)
        after = len(queue.renewals)
        await asyncio.sleep(0.5)
        assert len(queue.renewals) <= after + 1  # one may have been on its way
    for leases, thread in queue.renewals[before + 1 : after]:
        assert leases == {"a": (1, 1.2), "b": (1, 1.2), "c": (1, 1.2)}
        assert thread == "mcpkit-leases"


async def test_no_lease_is_longer_than_its_deadline(engine: Memory | Sqlite) -> None:
    await add(engine, "a")
    queue, seen = Between(engine), list[bool]()
    deadlines: list[float] = []

    async def do(job: Job, hold: Hold) -> None:
        hold.until(1.2)
        deadlines.append(time.monotonic() + 1.2)
        await forever(job, hold)

    hands = Hands(queue, do)
    async with runner_of(engine, hands, lease=0.9).running():
        await until(lambda: hands.jobs)
        began = time.monotonic()
        with Rival(engine, lambda: seen.append(hands.holds[0].is_lost)) as rival:
            await until(lambda: rival.jobs)
            assert time.monotonic() - began >= 1
            await until(lambda: hands.cancelled)
    assert seen[0]
    assert set(hands.cancelled) == {("a", "lost")}  # more than once where it has been quicker than the rival
    assert all(seconds <= 0.9 for leases, _ in queue.renewals for _, seconds in leases.values())
    assert queue.renewals[-1][0]["a"][1] < 0.9


async def test_a_deadline_can_be_put_off(engine: Memory | Sqlite) -> None:
    await add(engine, "a")
    queue = Between(engine)
    hands = Hands(queue, forever)
    async with runner_of(engine, hands, lease=LEASE).running():
        await until(lambda: hands.jobs)
        hold = hands.holds[0]
        hold.until(0.4)
        assert not hold.is_lost
        assert hold.may_last(LEASE) <= 0.4
        hold.until(None)
        assert hold.may_last(LEASE) == LEASE
        hold.until(0)
        assert hold.is_lost
        await until(lambda: hands.cancelled)
    assert hands.cancelled == [("a", "lost")]


async def test_what_has_ended_elsewhere_is_cancelled(engine: Memory | Sqlite) -> None:
    await add(engine, "a", "b")
    hands = Hands(engine, forever)
    async with runner_of(engine, hands, lease=0.6).running():
        await until(lambda: len(hands.jobs) == 2)
        job = await look(engine, "a")
        await engine.change("a", b"cancelled", version=job.version, keep=60.0)
        await until(lambda: hands.cancelled)
        assert hands.cancelled == [("a", "lost")]
        assert [hold.is_lost for hold in hands.holds] == [True, False]
    assert (await look(engine, "a")).value == b"cancelled"


async def test_what_cannot_be_prolonged_is_lost_before_anybody_has_it(
    engine: Memory | Sqlite, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a", "b")
    queue, seen = Between(engine), list[list[bool]]()
    hands = Hands(queue, forever)
    async with runner_of(engine, hands, lease=1.0).running():
        await until(lambda: len(hands.jobs) == 2)
        queue.fail_take = queue.fail_renew = ConnectionError("it is away")
        with Rival(engine, lambda: seen.append([hold.is_lost for hold in hands.holds])) as rival:
            await until(lambda: len(rival.jobs) == 2)
            await until(lambda: len(hands.cancelled) == 2)
    assert all(seen[0])
    assert sorted(hands.cancelled) == [("a", "lost"), ("b", "lost")]
    assert [job.fence for job in rival.jobs] == [2, 2]
    assert caplog.text.count("cannot be prolonged") == 1
    assert caplog.text.count("the lease of a is over") == caplog.text.count("the lease of b is over") == 1


async def test_a_short_absence_loses_nothing(
    engine: Memory | Sqlite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcpkit")
    await add(engine, "a")
    queue = Between(engine)
    hands = Hands(queue, forever)
    async with runner_of(engine, hands, lease=1.5).running():
        await until(lambda: hands.jobs)
        queue.fail_renew = ConnectionError("it is away")
        await until(lambda: "cannot be prolonged" in caplog.text)
        queue.fail_renew = None
        await until(lambda: "are prolonged again" in caplog.text)
        count = len(queue.renewals)
        await until(lambda: len(queue.renewals) > count + 2)
        assert not hands.holds[0].is_lost
    assert hands.cancelled == [("a", "drained")]


async def test_what_is_never_answered_is_asked_again(engine: Memory | Sqlite) -> None:
    await add(engine, "a")
    queue = Between(engine)

    async def on_renew() -> None:
        if len(queue.renewals) == 1:
            await asyncio.Event().wait()

    queue.on_renew = on_renew
    hands = Hands(queue, forever)
    async with runner_of(engine, hands, lease=1.5).running():
        await until(lambda: hands.jobs)
        await until(lambda: len(queue.renewals) >= 5)
        assert not hands.holds[0].is_lost


async def test_a_lease_can_be_lost_here_and_had_again(engine: Memory | Sqlite) -> None:
    await add(engine, "a")
    queue = Between(engine)
    queue.fail_renew = ConnectionError("it is away")

    async def do(job: Job, hold: Hold) -> None:
        if job.fence == 1:
            try:
                await forever(job, hold)
            finally:
                queue.fail_renew = None

    hands = Hands(queue, do)
    async with runner_of(engine, hands, lease=1.5).running():
        await until(lambda: len(hands.jobs) == 2 and hands.running == 0)
    assert hands.cancelled == [("a", "lost")]
    assert [job.fence for job in hands.jobs] == [1, 2]
    assert (await look(engine, "a")).value == b"done"


async def test_the_later_lease_of_a_job_is_the_one_that_counts(engine: Memory | Sqlite) -> None:
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


async def test_the_thread_ends_with_the_runner(engine: Memory | Sqlite) -> None:
    def threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == "mcpkit-leases"]

    hands = Hands(engine, forever)
    async with runner_of(engine, hands).running():
        assert threads() == []
        await add(engine, "a")
        await until(lambda: hands.jobs)
        assert threads() == ["mcpkit-leases"]
    await until(lambda: threads() == [])
