"""A queue: when a job may be taken, by whom, for how long, in which order, and who is woken."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from math import inf
from queue import SimpleQueue

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.state.queue import Message
from tests.helpers.clock import Clock
from tests.helpers.engines import LINE, add, change, done, eventually, keys, look, renew, take, take_one
from tests.helpers.waiting import PATIENCE


@pytest.fixture
def queue(engine: Memory | Sqlite) -> Memory | Sqlite:
    return engine


# Leases


def test_who_takes_a_job_has_it_alone(queue: Memory | Sqlite) -> None:
    add(queue, "a", b"1")
    job = take_one(queue)
    assert (job.key, job.value, job.fence) == ("a", b"1", 1)
    assert keys(queue) == []
    assert look(queue, "a").fence == 1


@pytest.mark.parametrize("lease", [0.5, 30])
def test_when_a_lease_is_over_the_next_who_asks_has_it(
    clock: Clock, queue: Memory | Sqlite, lease: float
) -> None:
    add(queue, "a")
    for fence in range(1, 5):
        assert take_one(queue, lease=lease).fence == fence
        clock.now += lease - 0.25
        assert keys(queue) == []
        clock.now += 0.25


def test_a_lease_is_prolonged_by_who_has_it(clock: Clock, queue: Memory | Sqlite) -> None:
    for key in ("a", "b"):
        add(queue, key)
    take(queue, lease=10)
    clock.now += 9
    assert renew(queue, {"a": (1, 10), "b": (1, 20)}) == set()
    clock.now += 9
    assert keys(queue) == []
    clock.now += 1
    assert keys(queue) == ["a"]
    assert renew(queue, {"b": (1, 5)}) == set()  # sooner, too
    clock.now += 5
    assert keys(queue) == ["b"]


def test_who_renews_hears_of_what_it_has_lost(clock: Clock, queue: Memory | Sqlite) -> None:
    names = ("kept", "over", "taken", "ended", "given up", "given back", "changed")
    for key in names:
        add(queue, key)
    assert set(keys(queue, lease=10)) == set(names)
    clock.now += 5
    assert renew(queue, {key: (1, 30) for key in names if key not in {"over", "taken"}}) == set()
    clock.now += 5
    assert keys(queue, most=1) in (["over"], ["taken"])
    taken = next(key for key in ("over", "taken") if look(queue, key).fence == 2)
    over = "over" if taken == "taken" else "taken"
    change(queue, look(queue, "ended"), fence=1, keep=60)
    change(queue, look(queue, "given up"), fence=1, due=inf)
    change(queue, look(queue, "given back"), due=0)
    change(queue, look(queue, "changed"))
    leases = dict.fromkeys((*names, "never was"), (1, 30.0))
    assert renew(queue, leases) == {taken, "ended", "given up", "given back", "never was"}
    assert look(queue, over).fence == 1  # nobody has asked for it: who had it has it still
    assert renew(queue, {taken: (2, 30)}) == set()
    assert renew(queue, {}) == set()


def test_a_lease_that_was_lost_is_not_prolonged(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    take(queue, lease=10)
    clock.now += 10
    take(queue, lease=10)
    assert renew(queue, {"a": (1, 60)}) == {"a"}
    clock.now += 10
    assert take_one(queue).fence == 3


# Times


def test_who_takes_hears_the_time(clock: Clock, queue: Memory | Sqlite) -> None:
    before = take(queue)
    clock.now += 5
    add(queue, "a")
    after = take(queue)
    assert len(after.jobs) == 1
    assert after.now - before.now == pytest.approx(5)


def test_the_time_is_that_of_the_world(engine_of_the_world: Memory | Sqlite) -> None:
    assert take(engine_of_the_world).now == pytest.approx(time.time(), abs=60)


def test_a_change_says_when_a_job_may_be_taken(clock: Clock, queue: Memory | Sqlite) -> None:
    for key in ("now", "later", "never", "as before"):
        add(queue, key)
    jobs = {job.key: job for job in take(queue, lease=60).jobs}
    change(queue, jobs["now"], fence=1, due=0)
    change(queue, jobs["later"], fence=1, due=20)
    change(queue, jobs["never"], fence=1, due=inf)
    change(queue, jobs["as before"], fence=1)
    assert keys(queue) == ["now"]
    clock.now += 19
    assert keys(queue) == []
    clock.now += 1
    assert keys(queue) == ["later"]
    clock.now += 1e6
    assert set(keys(queue, lease=1e9)) == {"now", "later", "as before"}
    assert look(queue, "never").fence == 1
    change(queue, look(queue, "never"), due=0)
    (job,) = take(queue).jobs
    assert (job.key, job.value, job.fence) == ("never", b"changed", 2)


def test_some_take_only_what_has_been_ready_for_a_while(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    assert keys(queue, late=5) == []
    clock.now += 4
    add(queue, "b")
    clock.now += 1
    assert keys(queue, late=5, lease=10) == ["a"]
    clock.now += 10
    assert keys(queue, late=5, lease=10) == ["b"]
    clock.now += 4
    assert keys(queue, late=5) == []
    assert keys(queue) == ["a"]


# Order


def test_those_come_first_whose_time_came_first(clock: Clock, queue: Memory | Sqlite) -> None:
    for key in ("z", "b", "y", "a"):
        add(queue, key)
        clock.now += 1
    change(queue, look(queue, "z"), due=0)
    change(queue, look(queue, "y"), due=5)
    clock.now += 10
    assert keys(queue, most=1) == ["b"]
    assert keys(queue, most=2) == ["a", "z"]
    assert keys(queue) == ["y"]


def test_of_several_queues_each_gets_its_turn(clock: Clock, queue: Memory | Sqlite) -> None:
    for number in range(20):
        add(queue, f"many {number}", line="s/task/many")
        clock.now += 1
    for number in range(3):
        add(queue, f"few {number}", line="s/task/few")
        clock.now += 1
    add(queue, "other", line="s/task/other")
    lines = ("s/task/many", "s/task/few", "s/task/none")
    assert sorted(keys(queue, *lines, most=4)) == ["few 0", "few 1", "many 0", "many 1"]
    alone = [keys(queue, *lines, most=1) for _ in range(4)]
    assert sorted(alone) == [["few 2"], ["many 2"], ["many 3"], ["many 4"]]
    assert ["few 2"] in alone[:2]
    assert keys(queue, *lines, most=5) == [f"many {number}" for number in range(5, 10)]
    assert keys(queue, *lines, lines[0], most=100) == [f"many {number}" for number in range(10, 20)]
    assert look(queue, "other").fence == 0
    assert take(queue, *lines).jobs == []
    assert done(queue.take([], most=5, lease=30)).jobs == []


# Waking


def heard_by(queue: Memory | Sqlite, *topics: str) -> list[tuple[str, str]]:
    heard: list[tuple[str, str]] = []
    for topic in topics:
        queue.subscribe(topic, lambda message, topic=topic: heard.append((topic, message)))
    done(queue.listening())
    return heard


def test_who_waits_is_woken_by_what_becomes_ready(clock: Clock, queue: Memory | Sqlite) -> None:
    heard = heard_by(queue, LINE, "s/task/b", "end")
    add(queue, "b", line="s/task/b")
    eventually(lambda: heard == [("s/task/b", "")])
    add(queue, "a")
    eventually(lambda: heard[1:] == [(LINE, "")])
    job = take_one(queue)
    change(queue, job, fence=1, due=0)
    eventually(lambda: heard[2:] == [(LINE, "")])
    assert add(queue, "a") == "exists"
    assert add(queue, "c", most=0) == "full"
    job = take_one(queue)
    change(queue, job, fence=1, due=inf)
    change(queue, look(queue, "a"), due=5)
    change(queue, look(queue, "a"))
    change(queue, job, fence=2, due=0)
    change(queue, look(queue, "a"), keep=60)
    done(queue.publish("end", ""))
    eventually(lambda: heard[-1] == ("end", ""))
    assert heard[3:-1] == []


def test_what_is_published_with_a_change_is_so_only_where_it_was_changed(queue: Memory | Sqlite) -> None:
    heard = heard_by(queue, "s/tasks")
    add(queue, "a")
    job = take_one(queue)
    for number in range(3):
        change(queue, look(queue, "a"), fence=1, message=Message("s/tasks", f"yes {number}"))
        change(queue, job, fence=1, message=Message("s/tasks", "no: another version"))
        change(queue, look(queue, "a"), fence=2, message=Message("s/tasks", "no: another fence"))
    change(queue, look(queue, "a"), keep=60, message=Message("s/tasks", "ended"))
    change(queue, look(queue, "a"), message=Message("s/tasks", "no: it has ended"))
    done(queue.publish("s/tasks", "end"))
    eventually(lambda: "end" in [text for _, text in heard])
    assert [text for _, text in heard] == ["yes 0", "yes 1", "yes 2", "ended", "end"]


def test_what_is_heard_of_is_there(queue: Memory | Sqlite) -> None:
    told: SimpleQueue[str] = SimpleQueue()

    def look_when_told() -> list[bytes]:
        return [look(queue, told.get(timeout=PATIENCE)).value for _ in range(20)]

    queue.subscribe(LINE, lambda text: told.put("a"))
    queue.subscribe("s/tasks", told.put)
    done(queue.listening())
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(look_when_told)
        add(queue, "a", b"0")
        for number in range(1, 20):
            change(queue, look(queue, "a"), b"%d" % number, message=Message("s/tasks", "a"))
        numbers = [int(value) for value in seen.result(PATIENCE)]
    assert all(number >= place for place, number in enumerate(numbers))
