"""A runner that ends takes nothing more and hands back what it has: others have it at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.state.queue import Job
from mcpkit.tasks.leases import Hold
from tests.helpers.hands import Between, Hands, Rival, add, forever, look, runner_of, take
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_what_runs_is_cancelled_and_handed_back(engine: Memory | Sqlite) -> None:
    await add(engine, "a", "b", "c")
    hands, tasks = Hands(engine, forever), asyncio.all_tasks()
    async with runner_of(engine, hands, slots=2).running():
        await until(lambda: hands.running == 2)
    assert sorted(hands.cancelled) == [("a", "drained"), ("b", "drained")]
    assert asyncio.all_tasks() == tasks
    jobs = {job.key: job.fence for job in await take(engine)}
    assert jobs == {"a": 2, "b": 2, "c": 1}


async def test_what_has_been_taken_and_not_begun_is_handed_back(engine: Memory | Sqlite) -> None:
    await add(engine, "a", "b")
    queue, taken = Between(engine), asyncio.Event()

    async def on_take() -> None:
        taken.set()

    queue.on_take = on_take
    hands = Hands(queue)
    async with runner_of(engine, hands).running():
        await taken.wait()  # which goes on before what has been taken does
    assert hands.jobs == []
    assert sorted((job.key, job.fence) for job in await take(engine)) == [("a", 2), ("b", 2)]


async def test_what_comes_while_it_ends_is_handed_back(engine: Memory | Sqlite) -> None:
    await add(engine, "a", "b")
    queue, taken, released = Between(engine), asyncio.Event(), asyncio.Event()

    async def on_take() -> None:
        taken.set()
        await released.wait()

    queue.on_take = on_take
    hands = Hands(queue)
    async with runner_of(engine, hands).running():
        await taken.wait()
        asyncio.get_running_loop().call_later(0.05, released.set)
    assert hands.jobs == []
    assert sorted((job.key, job.fence) for job in await take(engine)) == [("a", 2), ("b", 2)]


@pytest.mark.slow
async def test_leases_are_prolonged_while_it_ends(engine: Memory | Sqlite) -> None:
    await add(engine, "a")

    async def do(job: Job, hold: Hold) -> None:
        try:
            await forever(job, hold)
        except asyncio.CancelledError:
            await asyncio.sleep(1.5)  # which is three leases
            assert not hold.is_lost

    hands = Hands(engine, do)
    with ExitStack() as stack:
        async with runner_of(engine, hands, lease=0.5).running():
            await until(lambda: hands.jobs)
            rival = stack.enter_context(Rival(engine))
    assert rival.jobs == []
    assert (await look(engine, "a")).value == b"done"


async def test_what_does_not_end_is_left_to_others_after_the_grace(
    engine: Memory | Sqlite, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a")
    released, ended = asyncio.Event(), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        try:
            await forever(job, hold)
        except asyncio.CancelledError:
            await released.wait()
            ended.set()

    hands = Hands(engine, do)
    began = time.monotonic()
    async with runner_of(engine, hands, lease=0.5, grace=0.2).running():
        await until(lambda: hands.jobs)
    assert time.monotonic() - began >= 0.2
    assert "1 jobs have not ended within 0.2 s" in caplog.text
    assert not ended.is_set()
    with Rival(engine) as rival:
        await until(lambda: rival.jobs)
    assert hands.holds[0].is_lost
    released.set()
    await ended.wait()
    await until(lambda: hands.running == 0)
    assert (await look(engine, "a")).value == b""


async def test_without_any_grace_there_is_time_to_hand_back(engine: Memory | Sqlite) -> None:
    await add(engine, "a", "b", "c")
    hands = Hands(engine, forever)
    async with runner_of(engine, hands, grace=0).running():
        await until(lambda: hands.running == 3)
    assert hands.running == 0
    assert sorted((job.key, job.fence) for job in await take(engine)) == [("a", 2), ("b", 2), ("c", 2)]


async def test_it_can_begin_to_end_before_it_has_to(engine: Memory | Sqlite) -> None:
    await add(engine, "a")
    hands = Hands(engine, forever)
    runner = runner_of(engine, hands)
    runner.drain(10.0)  # before it runs, that does nothing
    async with runner.running():
        await until(lambda: hands.jobs)
        runner.drain(10.0)
        runner.drain(10.0)
        await until(lambda: hands.cancelled)
        await add(engine, "b")
        runner.wake()
        jobs: list[str] = []
        while len(jobs) < 2:
            jobs += [job.key for job in await take(engine)]
    assert sorted(jobs) == ["a", "b"]
    assert hands.keys == ["a"]


async def test_what_cannot_be_handed_back_is_left_to_the_end_of_its_lease(
    engine: Memory | Sqlite, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(engine, "a")
    queue, taken = Between(engine), asyncio.Event()

    async def on_take() -> None:
        taken.set()

    async def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("it is away")

    queue.on_take = on_take
    monkeypatch.setattr(queue, "change", refuse)
    hands = Hands(queue)
    async with runner_of(engine, hands, lease=0.3).running():
        await taken.wait()
    assert "a could not be handed back" in caplog.text
    with Rival(engine) as rival:
        await until(lambda: rival.jobs)


async def test_whoever_is_cancelled_while_it_ends_waits_no_longer(engine: Memory | Sqlite) -> None:
    await add(engine, "a")
    released, began = asyncio.Event(), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        try:
            await forever(job, hold)
        except asyncio.CancelledError:
            began.set()
            await released.wait()
            raise

    hands = Hands(engine, do)

    async def run() -> None:
        async with runner_of(engine, hands).running():
            await until(lambda: hands.jobs)

    task = asyncio.create_task(run())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    released.set()
    await until(lambda: hands.running == 0)
