"""A runner takes jobs as soon as it hears of them, so many at a time, whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.state.queue import Job
from mcpkit.tasks.leases import Hold
from mcpkit.tasks.runner import Runner
from tests.helpers.hands import LINE, Between, Hands, add, forever, look, runner_of, take
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

OTHER = "s/task/b"

HELPERS = Path(__file__).parent.parent / "helpers"


@pytest.mark.usefixtures("no_looks")
async def test_jobs_are_run_once_whether_they_were_there_before_or_come_later(
    engine: Memory | Sqlite,
) -> None:
    await add(engine, "before")
    hands = Hands(engine)
    async with runner_of(engine, hands).running():
        await until(lambda: hands.keys == ["before"])
        await add(engine, "later")
        await until(lambda: hands.keys == ["before", "later"])
        await until(lambda: hands.running == 0)
    assert [job.fence for job in hands.jobs] == [1, 1]
    assert [(await look(engine, key)).value for key in hands.keys] == [b"done", b"done"]
    assert all(abs(now - time.time()) < 60 for now in hands.times)


@pytest.mark.usefixtures("no_looks")
async def test_so_many_run_at_a_time_and_are_taken_at_once(engine: Memory | Sqlite) -> None:
    keys = [f"job {number:02}" for number in range(20)]
    await add(engine, *keys)
    queue, released = Between(engine), asyncio.Event()

    async def do(job: Job, hold: Hold) -> None:
        await released.wait()

    hands = Hands(queue, do)
    async with runner_of(engine, hands, slots=3).running():
        await until(lambda: hands.running == 3)
        assert queue.takes == [3]
        released.set()
        await until(lambda: len(hands.jobs) == 20 and hands.running == 0)
    assert sorted(hands.keys) == keys
    assert hands.most == 3


@pytest.mark.usefixtures("no_looks")
async def test_nobody_asks_again_where_there_was_not_enough(engine: Memory | Sqlite) -> None:
    await add(engine, "a", "b")
    queue = Between(engine)
    hands = Hands(queue)
    async with runner_of(engine, hands, slots=3).running():
        await until(lambda: hands.keys == ["a", "b"] and hands.running == 0)
        for _ in range(10):
            await asyncio.sleep(0)
    assert queue.takes == [3]


async def test_what_others_have_left_is_taken_when_its_lease_is_over(engine: Memory | Sqlite) -> None:
    await add(engine, "a")
    await engine.take([LINE], most=1, lease=0.3)
    hands = Hands(engine)
    async with runner_of(engine, hands).running():
        await until(lambda: hands.keys == ["a"])
        assert hands.jobs[0].fence == 2


@pytest.mark.usefixtures("no_looks")
async def test_queues_come_and_go(engine: Memory | Sqlite) -> None:
    await add(engine, "before", line=OTHER)
    hands = Hands(engine)
    runner = runner_of(engine, hands)
    async with runner.running():
        await add(engine, "a")
        await until(lambda: hands.keys == ["a"])
        hands.lines = [OTHER]
        runner.wake()
        await until(lambda: hands.keys == ["a", "before"])
        await add(engine, "b")
        await add(engine, "later", line=OTHER)
        await until(lambda: hands.keys == ["a", "before", "later"])
        hands.lines = []
        runner.wake()
    assert [job.key for job in await take(engine)] == ["b"]


@pytest.mark.usefixtures("no_looks")
async def test_it_is_woken_from_any_thread(engine: Memory | Sqlite) -> None:
    hands = Hands(engine)
    hands.lines = []
    runner = runner_of(engine, hands)
    runner.wake()  # before it runs, that does nothing
    async with runner.running():
        await add(engine, "a")
        hands.lines = [LINE]
        thread = threading.Thread(target=runner.wake)
        thread.start()
        await until(lambda: hands.keys == ["a"])
        thread.join()
    runner.wake()


@pytest.mark.usefixtures("no_looks")
async def test_who_has_missed_something_looks() -> None:
    class Deaf(Memory):
        """An engine whose bus loses all, and says so when it is asked."""

        told: Callable[[], None]

        def subscribe(
            self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
        ) -> Callable[[], None]:
            assert missed is not None
            self.told = missed
            return lambda: None

    engine = Deaf()
    queue = Between(engine)
    hands = Hands(queue)
    async with runner_of(engine, hands).running():
        await until(lambda: queue.takes)
        await add(engine, "a")
        engine.told()
        await until(lambda: hands.keys == ["a"])


@pytest.mark.slow
async def test_while_the_engine_does_not_answer_it_goes_on_trying(
    engine: Memory | Sqlite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcpkit")
    queue = Between(engine)
    queue.fail_take = ConnectionError("it is away")
    hands = Hands(queue, forever)
    async with runner_of(engine, hands, slots=3).running():
        await add(engine, "a", "b", "c")
        await until(lambda: len(queue.takes) > 3)
        queue.fail_take = None
        await until(lambda: hands.running == 3)
    told = [record.message for record in caplog.records if record.module == "trouble"]
    assert told == ["no jobs can be taken, which is tried again: it is away", "jobs are taken again"]
    assert "it is away" in caplog.text


async def test_what_cannot_be_done_is_told_and_left_to_the_end_of_its_lease(
    engine: Memory | Sqlite, caplog: pytest.LogCaptureFixture
) -> None:
    await add(engine, "a")

    async def do(job: Job, hold: Hold) -> None:
        if job.fence < 4:
            raise LookupError("it is not there")

    hands = Hands(engine, do)
    async with runner_of(engine, hands, slots=1, lease=0.2).running():
        await until(lambda: len(hands.jobs) == 4 and hands.running == 0)
    assert [job.fence for job in hands.jobs] == [1, 2, 3, 4]
    assert caplog.text.count("the work on a failed") == 3
    assert "it is not there" in caplog.text


@pytest.mark.slow
async def test_several_runners_share_the_jobs(engine: Memory | Sqlite) -> None:
    keys = [f"job {number:03}" for number in range(100)]
    await add(engine, *keys)
    every = [Hands(engine) for _ in range(3)]
    async with (
        runner_of(engine, every[0]).running(),
        runner_of(engine, every[1]).running(),
        runner_of(engine, every[2]).running(),
    ):
        await until(lambda: sum(len(hands.jobs) for hands in every) == 100)
        await until(lambda: not any(hands.running for hands in every))
    assert sorted(key for hands in every for key in hands.keys) == keys


FORKING = """
import asyncio, os, sys
from tests.helpers.hands import Hands, add, runner_of
from mcpkit import Sqlite

async def main(engine):
    loop = asyncio.get_running_loop()
    later, over, parent = loop.create_future(), asyncio.Event(), os.getpid()

    async def do(job, hold):
        if job.key != "forks":
            print("parent" if os.getpid() == parent else "child", "runs", job.key, flush=True)
            return
        child = os.fork()
        if child:
            await add(engine, "a", "b", "c")
            loop.call_later(0.1, look, child)
            return
        loop.call_later(1.5, later.set_result, None)
        await later  # meanwhile its copy of the runner has its copy of the loop
        print("child has lost it" if hold.is_lost else "child holds it", flush=True)
        sys.exit()

    def look(child):
        if os.waitpid(child, os.WNOHANG) == (0, 0):
            loop.call_later(0.1, look, child)
        else:
            over.set()

    await add(engine, "forks")
    hands = Hands(engine, do)
    async with runner_of(engine, hands, slots=2).running():
        await over.wait()
        print("parent ends", flush=True)

asyncio.run(main(Sqlite(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork")
async def test_a_forked_child_runs_nothing(tmp_path: Path) -> None:
    paths = {"PYTHONPATH": str(HELPERS.parent.parent)}
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, tmp_path / "shared.db"],
        env=os.environ | paths,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()) == [
        "child has lost it",
        "parent ends",
        "parent runs a",
        "parent runs b",
        "parent runs c",
    ]


def test_a_runner_can_be_used_in_one_loop_after_the_other(engine: Memory | Sqlite) -> None:
    hands = Hands(engine)
    runner: Runner = runner_of(engine, hands)

    async def run(key: str) -> None:
        async with runner.running():
            await add(engine, key)
            await until(lambda: key in hands.keys and hands.running == 0)

    asyncio.run(run("a"))
    asyncio.run(run("b"))
    assert hands.keys == ["a", "b"]
