"""A queue: many at once, any steps, and one winner for each job."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Memory, Sqlite
from mcpkit.state.queue import Job
from tests.helpers.clock import Clock
from tests.helpers.engines import (
    ENGINES,
    THREADS,
    add,
    change,
    close,
    done,
    in_threads,
    look,
    make_engine,
    take,
)

TURNS = {"memory": 200}


@pytest.fixture
def queue(engine: Memory | Sqlite) -> Memory | Sqlite:
    return engine


@pytest.fixture
def turns(request: pytest.FixtureRequest) -> int:
    return TURNS.get(request.node.callspec.params["engine"], 25)


# Threads


@pytest.mark.usefixtures("frequent_switches")
def test_of_all_threads_that_add_a_job_one_has_added_it(queue: Any, turns: int) -> None:
    added: list[str] = []

    def work(number: int) -> None:
        for turn in range(turns):
            if add(queue, str(turn), b"%d" % number) == "added":
                added.append(str(turn))

    in_threads(work)
    assert sorted(added) == sorted(str(turn) for turn in range(turns))


@pytest.mark.usefixtures("frequent_switches")
def test_threads_that_add_never_find_more_room_than_there_is(queue: Any) -> None:
    came_of_it: list[str] = []

    def work(number: int) -> None:
        for turn in range(5):
            came_of_it.append(
                add(queue, f"{number}-{turn}", owner=f"{number % 2}", most=30, most_of_owner=12)
            )

    in_threads(work)
    assert Counter(came_of_it) == {"added": 24, "owner_full": 5 * THREADS - 24}


@pytest.mark.usefixtures("frequent_switches")
def test_of_all_threads_that_take_a_job_one_has_it(queue: Any, turns: int) -> None:
    for turn in range(turns):
        add(queue, str(turn), line=f"s/task/{turn % 3}")
    taken: list[Job] = []

    def work(number: int) -> None:
        while jobs := take(queue, *(f"s/task/{each}" for each in range(3)), most=1 + number % 3).jobs:
            taken.extend(jobs)

    in_threads(work)
    assert sorted(job.key for job in taken) == sorted(str(turn) for turn in range(turns))
    assert {job.fence for job in taken} == {1}


@pytest.mark.usefixtures("frequent_switches")
def test_of_all_threads_that_end_a_job_one_has_ended_it(queue: Any, turns: int) -> None:
    for turn in range(turns):
        add(queue, str(turn))
    jobs = take(queue, most=turns).jobs
    ended: dict[str, bytes] = {}

    def work(number: int) -> None:
        for job in jobs:
            value = b"%d" % number
            if change(queue, job, value, fence=1 if number % 2 else None, keep=60) is not None:
                assert job.key not in ended
                ended[job.key] = value

    in_threads(work)
    assert ended == {job.key: look(queue, job.key).value for job in jobs}
    assert len(ended) == turns


# Processes

PROGRAM = """
import asyncio, json, sys
from mcpkit import Sqlite

shared = Sqlite(sys.argv[1])
name = sys.argv[2].encode()

async def work():
    added, taken, ended = [], [], []
    for turn in range(100):
        if await shared.add(str(turn), name, queue="s/task/a", owner="", most=1000, most_of_owner=1000) == "added":
            added.append(str(turn))
    while jobs := (await shared.take(["s/task/a"], most=3, lease=600)).jobs:
        taken += [[job.key, job.fence] for job in jobs]
    for turn in range(100):
        job = await shared.look(str(turn))
        if await shared.change(job.key, name, version=job.version, keep=600) is not None:
            ended.append([job.key, name.decode()])
    return [added, taken, ended]

print(json.dumps(asyncio.run(work())))
"""


@pytest.mark.slow
@pytest.mark.anyio
async def test_of_all_processes_one_adds_takes_and_ends_a_job(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(path), str(number), stdout=asyncio.subprocess.PIPE
        )
        for number in range(4)
    ]
    outputs = await asyncio.wait_for(asyncio.gather(*(each.communicate() for each in running)), 60)
    all_added, all_taken, all_ended = zip(*(json.loads(output) for output, _ in outputs), strict=True)
    names = [str(turn) for turn in range(100)]
    assert sorted(key for added in all_added for key in added) == sorted(names)
    assert sorted(key for taken in all_taken for key, _ in taken) == sorted(names)
    assert {fence for taken in all_taken for _, fence in taken} == {1}
    ends = [(key, name) for ended in all_ended for key, name in ended]
    assert len(ends) == 100
    with closing(Sqlite(path)) as shared:
        for key, name in ends:
            job = await shared.look(key)
            assert job is not None
            assert job.value == name.encode()


# Any steps

KEYS = st.sampled_from("abc")
LINES = ("s/task/x", "s/task/y")
SOME_SECONDS = st.sampled_from([None, 0, 3, 6, inf])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.sampled_from(LINES), st.sampled_from(["", "ann"])),
        st.tuples(
            st.just("change"), KEYS, st.integers(-3, 20), st.sampled_from([None, 0, 1, 2, 3]), SOME_SECONDS
        ),
        st.tuples(st.just("end"), KEYS, st.sampled_from([None, 0, 1, 2])),
        st.tuples(st.just("take"), st.integers(1, 3), st.sampled_from([0, 4])),
        st.tuples(st.just("renew"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(1, 6)),
    ),
    max_size=40,
)


class Model:
    """A queue that looks at everything."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.jobs: dict[str, dict[str, Any]] = {}

    def held(self, key: str) -> dict[str, Any] | None:
        held = self.jobs.get(key)
        return None if held is None or held["expires"] <= self.clock.now else held

    def open(self) -> list[dict[str, Any]]:
        return [each for each in self.jobs.values() if each["expires"] == inf]

    def ready(self, late: float) -> set[str]:
        return {each["key"] for each in self.open() if each["due"] <= self.clock.now - late}


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_it_agrees_with_a_queue_that_looks_at_everything(
    name: str, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = Clock()
    queue = make_engine(name, tmp_path_factory.mktemp("engine"), clock)
    model, versions = Model(clock), ["made up"]
    for step, *arguments in steps:
        if step == "wait":
            clock.now += arguments[0]
        elif step == "add":
            key, line, owner = arguments
            mine = sum(each["owner"] == owner for each in model.open())
            expected = (
                "exists"
                if model.held(key)
                else "full"
                if len(model.open()) >= 2
                else "owner_full"
                if owner and mine >= 1
                else "added"
            )
            assert add(queue, key, b"new", line=line, owner=owner, most=2, most_of_owner=1) == expected
            if expected == "added":
                model.jobs[key] = {
                    "key": key,
                    "job": look(queue, key),
                    "owner": owner,
                    "due": clock.now,
                    "leased": False,
                    "expires": inf,
                }
                assert model.jobs[key]["job"] == (key, b"new", model.jobs[key]["job"].version, 0)
        elif step in {"change", "end"}:
            key, number, fence, due = (
                arguments if step == "change" else (arguments[0], -1, arguments[1], None)
            )
            held, keep = model.held(key), 5 if step == "end" else None
            version = versions[number] if number >= 0 and number < len(versions) else None
            version = version or (held["job"].version if held else "made up")
            value = b"%d" % len(versions)
            new = done(queue.change(key, value, version=version, fence=fence, due=due, keep=keep))
            assert (new is not None) == (
                held is not None
                and held["expires"] == inf
                and held["job"].version == version
                and fence in {None, held["job"].fence}
            )
            if new is not None:
                assert held is not None
                assert new not in versions
                versions.append(new)
                held["job"] = Job(key, value, new, held["job"].fence)
                if keep is not None:
                    held["expires"] = clock.now + keep
                elif due is not None:
                    held["due"], held["leased"] = clock.now + due, False
        elif step == "take":
            most, late = arguments
            ready = model.ready(late)
            taken = take(queue, *LINES, most=most, late=late, lease=5).jobs
            assert len(taken) == min(most, len(ready))
            assert {job.key for job in taken} <= ready
            for job in taken:
                held = model.jobs[job.key]
                assert job == held["job"]._replace(fence=held["job"].fence + 1)
                held["job"], held["due"], held["leased"] = job, clock.now + 5, True
        else:
            key, fence = arguments
            held = model.held(key)
            is_mine = held is not None and held["expires"] == inf and held["leased"]
            is_mine = is_mine and held is not None and held["job"].fence == fence
            assert done(queue.renew({key: (fence, 4)})) == (set() if is_mine else {key})
            if is_mine and held is not None:
                held["due"] = clock.now + 4
        for key in "abc":
            held = model.held(key)
            assert done(queue.look(key)) == (None if held is None else held["job"])
        ready, waiting = model.ready(0), done(queue.waiting("s"))
        assert sum(each.ready for each in waiting) == len(ready)
        assert sum(each.held for each in waiting) == len(model.open()) - len(ready)
    close(queue)
