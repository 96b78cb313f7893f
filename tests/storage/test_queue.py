"""The job queue: admission, fences, leases, order and wake-ups, as every engine has them."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.state.queue import Job
from mcpkit.storage import Memory
from tests.helpers.clock import Clock
from tests.helpers.engines import (
    LINE,
    THREADS,
    Engine,
    add,
    change,
    close,
    done,
    eventually,
    in_threads,
    look,
    make_engine,
    owned,
    take,
    take_one,
)

# Wake-ups


def subscribe(engine: Engine, *topics: str) -> list[tuple[str, str]]:
    messages: list[tuple[str, str]] = []
    for topic in topics:
        engine.subscribe(topic, lambda message, topic=topic: messages.append((topic, message)))
    done(engine.listening())
    return messages


def test_job_that_becomes_ready_is_published_to_its_queue(clock: Clock, engine: Engine) -> None:
    messages = subscribe(engine, LINE, "s/task/b", "end")
    add(engine, "b", line="s/task/b")
    eventually(lambda: messages == [("s/task/b", "")])
    add(engine, "a")
    eventually(lambda: messages[1:] == [(LINE, "")])
    job = take_one(engine)
    change(engine, job, fence=1, due=0)
    eventually(lambda: messages[2:] == [(LINE, "")])
    assert add(engine, "a") == "exists"
    assert add(engine, "c", max_open=0) == "full"
    job = take_one(engine)
    change(engine, job, fence=1, due=inf)
    change(engine, look(engine, "a"), due=5)
    change(engine, look(engine, "a"))
    change(engine, job, fence=2, due=0)
    change(engine, look(engine, "a"), ttl=60)
    done(engine.publish("end", ""))
    eventually(lambda: messages[-1] == ("end", ""))
    assert messages[3:-1] == []


# Threads


@pytest.fixture
def turns(engine: Engine) -> int:
    return 200 if isinstance(engine, Memory) else 25


@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_add_never_exceeds_the_limits(engine: Engine) -> None:
    results: list[str] = []

    def work(number: int) -> None:
        for turn in range(5):
            results.append(
                add(engine, f"{number}-{turn}", owner=f"{number % 2}", max_open=30, max_open_per_owner=12)
            )

    in_threads(work)
    assert Counter(results) == {"added": 24, "owner_full": 5 * THREADS - 24}


@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_take_returns_each_job_once(engine: Engine, turns: int) -> None:
    for turn in range(turns):
        add(engine, str(turn), line=f"s/task/{turn % 3}")
    taken: list[Job] = []

    def work(number: int) -> None:
        while jobs := take(engine, *(f"s/task/{each}" for each in range(3)), limit=1 + number % 3).jobs:
            taken.extend(jobs)

    in_threads(work)
    assert sorted(job.key for job in taken) == sorted(str(turn) for turn in range(turns))
    assert {job.fence for job in taken} == {1}


# Model

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
        entry = self.jobs.get(key)
        return None if entry is None or entry["expires"] <= self.clock.now else entry

    def open(self) -> list[dict[str, Any]]:
        return [each for each in self.jobs.values() if each["expires"] == inf]

    def ready(self, ready_for: float) -> set[str]:
        return {each["key"] for each in self.open() if each["due"] <= self.clock.now - ready_for}


@given(steps=STEPS)
def test_queue_agrees_with_a_model(
    engine_name: str, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = Clock()
    engine = make_engine(engine_name, tmp_path_factory.mktemp("engine"), clock)
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
            assert (
                add(engine, key, b"new", line=line, owner=owner, max_open=2, max_open_per_owner=1) == expected
            )
            if expected == "added":
                model.jobs[key] = {
                    "key": key,
                    "job": look(engine, key),
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
            entry, keep = model.held(key), 5 if step == "end" else None
            version = versions[number] if number >= 0 and number < len(versions) else None
            version = version or (entry["job"].version if entry else "made up")
            value = b"%d" % len(versions)
            new = done(engine.change(key, value, version=version, fence=fence, due=due, ttl=keep))
            assert (new is not None) == (
                entry is not None
                and entry["expires"] == inf
                and entry["job"].version == version
                and fence in {None, entry["job"].fence}
            )
            if new is not None:
                assert entry is not None
                assert new not in versions
                versions.append(new)
                entry["job"] = Job(key, value, new, entry["job"].fence)
                if keep is not None:
                    entry["expires"] = clock.now + keep
                elif due is not None:
                    entry["due"], entry["leased"] = clock.now + due, False
        elif step == "take":
            limit, ready_for = arguments
            ready = model.ready(ready_for)
            taken = take(engine, *LINES, limit=limit, ready_for=ready_for, lease=5).jobs
            assert len(taken) == min(limit, len(ready))
            assert {job.key for job in taken} <= ready
            for job in taken:
                entry = model.jobs[job.key]
                assert job == entry["job"]._replace(fence=entry["job"].fence + 1)
                entry["job"], entry["due"], entry["leased"] = job, clock.now + 5, True
        else:
            key, fence = arguments
            entry = model.held(key)
            is_mine = entry is not None and entry["expires"] == inf and entry["leased"]
            is_mine = is_mine and entry is not None and entry["job"].fence == fence
            assert done(engine.renew({key: (fence, 4)})) == (set() if is_mine else {key})
            if is_mine and entry is not None:
                entry["due"] = clock.now + 4
        for key in "abc":
            entry = model.held(key)
            assert done(engine.get_job(key)) == (None if entry is None else entry["job"])
        ready, waiting = model.ready(0), done(engine.list_queues("s"))
        assert sum(each.ready for each in waiting) == len(ready)
        assert sum(each.held for each in waiting) == len(model.open()) - len(ready)
    close(engine)


def test_owned_lists_jobs_newest_first_in_pages(clock: Clock, engine: Engine) -> None:
    for number in range(10):
        add(engine, str(number), line=f"s/task/{number % 3}", owner="ann" if number % 2 else "bob")
        clock.now += 1
    add(engine, "other", line="other/task/0", owner="ann")
    take(engine, "s/task/0", "s/task/1")
    change(engine, look(engine, "3"), ttl=10)
    assert owned(engine, "ann") == ["9", "7", "5", "3", "1"]
    assert owned(engine, "ann", limit=2) == ["9", "7"]
    assert owned(engine, "ann", after="7", limit=2) == ["5", "3"]
    assert owned(engine, "ann", after="3", limit=2) == ["1"]
    assert owned(engine, "ann", after="1") == []
    assert owned(engine, "ann", server="other") == ["other"]
    assert owned(engine, "eve") == []
    assert owned(engine, "", server="s") == []
    clock.now += 10
    assert owned(engine, "ann") == ["9", "7", "5", "1"]
    assert owned(engine, "ann", after="3") == []
    (first, *_) = done(engine.list_jobs("ann", server="s", after="", limit=1))
    assert first == look(engine, "9")
