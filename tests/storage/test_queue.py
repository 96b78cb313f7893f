"""The job queue: admission, fences, leases, order and wake-ups, as every engine has them."""

from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.storage.jobs_and_heartbeats import Job
from tests.helpers import engines
from tests.helpers.waiting import Clock, eventually


def subscribe(engine: engines.Engine, *topics: str) -> list[tuple[str, str]]:
    messages: list[tuple[str, str]] = []
    for topic in topics:
        engine.subscribe(topic, lambda message, topic=topic: messages.append((topic, message)))
    engines.done(engine.listening())
    return messages


def test_job_that_becomes_ready_is_published_to_its_queue(clock: Clock, engine: engines.Engine) -> None:
    messages = subscribe(engine, engines.LINE, "s/task/b", "end")
    engines.add(engine, "b", line="s/task/b")
    eventually(lambda: messages == [("s/task/b", "")])
    engines.add(engine, "a")
    eventually(lambda: messages[1:] == [(engines.LINE, "")])
    job = engines.take_one(engine)
    engines.change(engine, job, fence=1, due=0)
    eventually(lambda: messages[2:] == [(engines.LINE, "")])
    assert engines.add(engine, "a") == "exists"
    assert engines.add(engine, "c", max_open=0) == "full"
    job = engines.take_one(engine)
    engines.change(engine, job, fence=1, due=inf)
    engines.change(engine, engines.get_job(engine, "a"), due=5)
    engines.change(engine, engines.get_job(engine, "a"))
    engines.change(engine, job, fence=2, due=0)
    engines.change(engine, engines.get_job(engine, "a"), ttl=60)
    engines.done(engine.publish("end", ""))
    eventually(lambda: messages[-1] == ("end", ""))
    assert messages[3:-1] == []


def test_ended_job_leaves_room_for_another(engine: engines.Engine) -> None:
    assert engines.add(engine, "a", owner="ann", max_open=1) == "added"
    assert engines.add(engine, "b", owner="ann", max_open=1) == "full"
    engines.change(engine, engines.get_job(engine, "a"), ttl=60)
    assert engines.add(engine, "b", owner="ann", max_open=1, max_open_per_owner=1) == "added"
    assert engines.add(engine, "c", owner="ann", max_open_per_owner=1) == "owner_full"
    engines.change(engine, engines.get_job(engine, "b"), ttl=60)
    assert engines.add(engine, "c", owner="ann", max_open_per_owner=1) == "added"


# Threads


@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_add_never_exceeds_the_limits(engine: engines.Engine) -> None:
    results: list[str] = []

    def work(number: int) -> None:
        for turn in range(5):
            key, owner = f"{number}-{turn}", f"{number % 2}"
            results.append(engines.add(engine, key, owner=owner, max_open=30, max_open_per_owner=12))

    engines.in_threads(work)
    assert Counter(results) == {"added": 24, "owner_full": 5 * engines.THREADS - 24}


@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_take_returns_each_job_once(engine: engines.Engine, turns: int) -> None:
    for turn in range(turns):
        engines.add(engine, str(turn), line=f"s/task/{turn % 3}")
    taken: list[Job] = []

    def work(number: int) -> None:
        while jobs := engines.take(
            engine, *(f"s/task/{each}" for each in range(3)), limit=1 + number % 3
        ).jobs:
            taken.extend(jobs)

    engines.in_threads(work)
    assert sorted(job.key for job in taken) == sorted(str(turn) for turn in range(turns))
    assert {job.fence for job in taken} == {1}


# Model

KEYS = st.sampled_from("abc")
LINES = ("s/task/x", "s/task/y")
FENCES = st.sampled_from([None, 0, 1, 2, 3])
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.sampled_from(LINES), st.sampled_from(["", "ann"])),
    st.tuples(st.just("change"), KEYS, st.integers(-3, 20), FENCES, st.sampled_from([None, 0, 3, 6, inf])),
    st.tuples(st.just("end"), KEYS, st.just(-1), FENCES, st.none()),
    st.tuples(st.just("take"), st.integers(1, 3), st.sampled_from([0, 4])),
    st.tuples(st.just("renew"), KEYS, st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(1, 6)),
)


@dataclass
class ModelJob:
    job: Job
    owner: str
    due: float
    is_leased: bool = False
    expires: float = inf


@given(steps=st.lists(STEPS, max_size=40))
def test_queue_agrees_with_a_model(engine_name: str, steps: list[Any], tmp_path_factory) -> None:
    clock = Clock()
    engine = engines.make_engine(engine_name, tmp_path_factory.mktemp("engine"), clock)
    jobs: dict[str, ModelJob] = {}
    versions = ["made up"]

    def find(key: str) -> ModelJob | None:
        return jobs[key] if key in jobs and jobs[key].expires > clock.now else None

    def open_jobs() -> list[ModelJob]:
        return [each for each in jobs.values() if each.expires == inf]

    def ready(ready_for: float = 0) -> set[str]:
        return {each.job.key for each in open_jobs() if each.due <= clock.now - ready_for}

    for step, *arguments in steps:
        if step == "wait":
            clock.now += arguments[0]
        elif step == "add":
            key, line, owner = arguments
            has_job = owner != "" and owner in [each.owner for each in open_jobs()]
            refused = {"exists": find(key), "full": len(open_jobs()) >= 2, "owner_full": has_job}
            expected = next((name for name, applies in refused.items() if applies), "added")
            added = engines.add(engine, key, b"new", line=line, owner=owner, max_open=2, max_open_per_owner=1)
            assert added == expected
            if added == "added":
                job = engines.get_job(engine, key)
                assert job == (key, b"new", job.version, 0)
                jobs[key] = ModelJob(job, owner, clock.now)
        elif step in {"change", "end"}:
            key, number, fence, due = arguments
            entry, ttl = find(key), 5 if step == "end" else None
            version = entry.job.version if entry is not None else "made up"
            given_version = versions[number] if 0 <= number < len(versions) else version
            value = b"%d" % len(versions)
            new = engines.done(
                engine.change(key, value, version=given_version, fence=fence, due=due, ttl=ttl)
            )
            is_open = entry is not None and entry.expires == inf and fence in {None, entry.job.fence}
            assert (new is not None) == (is_open and given_version == version)
            if new is not None:
                assert entry is not None
                assert new not in versions
                versions.append(new)
                entry.job = Job(key, value, new, entry.job.fence)
                if ttl is not None:
                    entry.expires = clock.now + ttl
                elif due is not None:
                    entry.due, entry.is_leased = clock.now + due, False
        elif step == "take":
            limit, ready_for = arguments
            expected = ready(ready_for)
            taken = engines.take(engine, *LINES, limit=limit, ready_for=ready_for, lease=5).jobs
            assert len(taken) == min(limit, len(expected))
            assert {job.key for job in taken} <= expected
            for job in taken:
                entry = jobs[job.key]
                assert job == entry.job._replace(fence=entry.job.fence + 1)
                entry.job, entry.due, entry.is_leased = job, clock.now + 5, True
        else:
            key, fence = arguments
            entry = find(key)
            is_open = entry is not None and entry.expires == inf and entry.is_leased
            is_own = entry is not None and is_open and entry.job.fence == fence
            assert engines.done(engine.renew({key: (fence, 4)})) == (set() if is_own else {key})
            if is_own:
                entry.due = clock.now + 4
        for key in "abc":
            assert engines.done(engine.get_job(key)) == getattr(find(key), "job", None)
        waiting = engines.done(engine.list_queues("s"))
        assert sum(each.ready for each in waiting) == len(ready())
        assert sum(each.held for each in waiting) == len(open_jobs()) - len(ready())
    engines.close(engine)


def test_owned_lists_jobs_newest_first_in_pages(clock: Clock, engine: engines.Engine) -> None:
    for number in range(10):
        engines.add(engine, str(number), line=f"s/task/{number % 3}", owner="ann" if number % 2 else "bob")
        clock.now += 1
    engines.add(engine, "other", line="other/task/0", owner="ann")
    engines.take(engine, "s/task/0", "s/task/1")
    engines.change(engine, engines.get_job(engine, "3"), ttl=10)
    for owner, options, expected in (
        ("ann", {}, "97531"),
        ("ann", {"limit": 2}, "97"),
        ("ann", {"after": "7", "limit": 2}, "53"),
        ("ann", {"after": "3", "limit": 2}, "1"),
        ("ann", {"after": "1"}, ""),
        ("eve", {}, ""),
        ("", {}, ""),
    ):
        assert engines.owned(engine, owner, **options) == [*expected], (owner, options)
    assert engines.owned(engine, "ann", server="other") == ["other"]
    clock.now += 10
    assert engines.owned(engine, "ann") == ["9", "7", "5", "1"]
    assert engines.owned(engine, "ann", after="3") == []
    (first, *_) = engines.done(engine.list_jobs("ann", server="s", after="", limit=1))
    assert first == engines.get_job(engine, "9")
