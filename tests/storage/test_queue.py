"""A queue: jobs are made, seen, changed by who has seen the latest, and end once."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.state.queue import Job, Message, Waiting
from tests.helpers.clock import Clock
from tests.helpers.engines import LINE, add, change, done, keys, look, owned, renew, size, take, take_one

AWKWARD = ["a'b", 'a"b', "a%b_c*", "a\nb", "ä/日本/🎉", "a\\b", "{a}", " ", "a" * 500, "a\x00b", "-1", "a:b"]


@pytest.fixture
def queue(engine: Memory | Sqlite) -> Memory | Sqlite:
    return engine


# Making


def test_a_job_is_there_as_soon_as_it_is_added(queue: Memory | Sqlite) -> None:
    assert done(queue.look("a")) is None
    assert add(queue, "a", b"1") == "added"
    job = look(queue, "a")
    assert job == Job("a", b"1", job.version, 0)
    assert job.version


def test_a_job_that_is_there_is_not_made_again(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a", b"1")
    before = look(queue, "a")
    assert add(queue, "a", b"2", line="s/task/other", owner="other") == "exists"
    assert look(queue, "a") == before
    change(queue, before, b"3", keep=10)
    assert add(queue, "a", b"4") == "exists"
    clock.now += 10
    assert add(queue, "a", b"5") == "added"
    assert look(queue, "a").value == b"5"
    assert look(queue, "a").fence == 0


def test_there_is_room_for_so_many_open_jobs_of_a_server(queue: Memory | Sqlite) -> None:
    assert add(queue, "a", line="s/task/a", most=2) == "added"
    assert add(queue, "b", line="s/task/b", most=2) == "added"
    assert add(queue, "c", line="s/task/c", most=2) == "full"
    assert add(queue, "d", line="s2/task/a", most=2) == "added"
    assert done(queue.look("c")) is None
    take(queue, "s/task/a")
    assert add(queue, "c", most=2) == "full"
    change(queue, look(queue, "b"), due=inf)
    assert add(queue, "c", most=2) == "full"
    assert add(queue, "a", most=2) == "exists"
    change(queue, look(queue, "a"), keep=10)
    assert add(queue, "c", most=2) == "added"
    assert add(queue, "e", most=2) == "full"
    assert add(queue, "e", most=0) == "full"


def test_there_is_room_for_so_many_open_jobs_of_an_owner(queue: Memory | Sqlite) -> None:
    assert add(queue, "a", owner="ann", most_of_owner=1) == "added"
    assert add(queue, "b", owner="ann", line="s/task/b", most_of_owner=1) == "owner_full"
    assert add(queue, "b", owner="bob", most_of_owner=1) == "added"
    assert add(queue, "c", owner="ann", line="t/task/a", most_of_owner=1) == "added"
    assert add(queue, "d", most_of_owner=1) == "added"
    assert add(queue, "e", most_of_owner=1) == "added"
    change(queue, look(queue, "a"), keep=10)
    assert add(queue, "f", owner="ann", most_of_owner=1) == "added"


@pytest.mark.parametrize("value", ["text", bytearray(b"1"), None, {"a": 1}])
def test_a_job_holds_bytes(queue: Memory | Sqlite, value: Any) -> None:
    with pytest.raises(TypeError, match=f"a job holds bytes, got {type(value).__name__}: encode it"):
        add(queue, "a", value)
    add(queue, "a")
    with pytest.raises(TypeError, match="a job holds bytes"):
        change(queue, look(queue, "a"), value)
    assert look(queue, "a").value == b""


def test_values_of_a_megabyte_are_kept(queue: Memory | Sqlite) -> None:
    first, second = bytes(range(256)) * 4096, b"\xff\x00\r\n" * 262_144
    add(queue, "a", first)
    assert look(queue, "a").value == first
    job = take_one(queue)
    assert job.value == first
    assert change(queue, job, second, fence=job.fence, keep=10)
    assert look(queue, "a").value == second


@pytest.mark.parametrize("text", AWKWARD)
def test_any_text_is_a_key_an_owner_and_a_queue(queue: Memory | Sqlite, text: str) -> None:
    key, line = f"s/{text}", f"s/task/{text}"
    assert add(queue, key, line=line, owner=text) == "added"
    assert add(queue, key, line=line, owner=text) == "exists"
    assert owned(queue, text) == [key]
    assert [each.queue for each in done(queue.waiting("s"))] == [line]
    (job,) = take(queue, line).jobs
    assert job.key == key
    assert renew(queue, {key: (1, 60), f"{key}x": (1, 60)}) == {f"{key}x"}
    assert change(queue, job, message=Message(text, text), keep=10)
    assert look(queue, key).value == b"changed"


# Changing


def test_of_all_who_have_seen_a_version_the_first_changes_it(queue: Memory | Sqlite) -> None:
    add(queue, "a", b"1")
    seen = look(queue, "a")
    version = change(queue, seen, b"2")
    assert version not in {None, seen.version}
    assert look(queue, "a") == ("a", b"2", version, 0)
    assert change(queue, seen, b"3") is None
    assert change(queue, seen._replace(version="made up"), b"3") is None
    assert change(queue, seen._replace(key="b"), b"3") is None
    assert look(queue, "a").value == b"2"
    assert done(queue.look("b")) is None


def test_a_version_is_of_one_value_alone(clock: Clock, queue: Memory | Sqlite) -> None:
    seen = set()
    for _ in range(3):
        add(queue, "a", b"1")
        first = look(queue, "a")
        change(queue, first, b"1")
        second = look(queue, "a")
        change(queue, second, b"1", keep=10)
        third = look(queue, "a")
        seen |= {first.version, second.version, third.version}
        clock.now += 10
        assert change(queue, third) is None
    assert len(seen) == 9


def test_to_take_a_job_changes_none_of_what_it_holds(queue: Memory | Sqlite) -> None:
    add(queue, "a", b"1")
    before = look(queue, "a")
    job = take_one(queue)
    assert job == before._replace(fence=1)
    assert look(queue, "a") == job
    assert change(queue, before, b"cancelled", keep=10)  # by who takes nothing
    assert change(queue, job, b"done", fence=1, keep=10) is None
    assert look(queue, "a").value == b"cancelled"


def test_who_took_it_before_somebody_else_changes_nothing(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    first = take_one(queue, lease=30)
    clock.now += 30
    second = take_one(queue, lease=30)
    assert (first.fence, second.fence) == (1, 2)
    assert change(queue, first, b"late", fence=first.fence) is None
    assert change(queue, look(queue, "a"), b"late", fence=first.fence, keep=10) is None
    assert change(queue, look(queue, "a"), b"made up", fence=3) is None
    assert change(queue, second, b"done", fence=second.fence, keep=10)
    assert look(queue, "a").value == b"done"


def test_who_took_it_last_changes_it_however_late(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    job = take_one(queue, lease=30)
    clock.now += 3000
    assert change(queue, job, b"done", fence=job.fence, keep=10)


def test_who_has_it_goes_on_having_it_while_it_is_changed(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    job = take_one(queue, lease=30)
    assert change(queue, job, b"1", fence=1)
    clock.now += 29
    assert keys(queue) == []
    assert renew(queue, {"a": (1, 30)}) == set()
    clock.now += 29
    assert change(queue, look(queue, "a"), b"2")
    assert keys(queue) == []
    clock.now += 1
    assert keys(queue) == ["a"]


# Ending


def test_what_has_ended_is_never_changed(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    job = take_one(queue)
    assert change(queue, job, b"done", fence=1, keep=60)
    ended = look(queue, "a")
    assert ended.value == b"done"
    for fence in (None, 0, 1, 2):
        for due, keep in ((None, None), (0, None), (None, 60), (inf, 60)):
            assert change(queue, ended, b"again", fence=fence, due=due, keep=keep) is None
    clock.now += 59
    assert keys(queue) == []
    assert renew(queue, {"a": (1, 30)}) == {"a"}
    assert look(queue, "a") == ended
    clock.now += 1
    assert done(queue.look("a")) is None
    assert size(queue) == 0


def test_what_ends_at_a_time_is_never_due(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    assert change(queue, look(queue, "a"), due=0, keep=60)
    assert keys(queue) == []
    assert done(queue.waiting("s")) == []


def test_what_is_open_never_expires(clock: Clock, queue: Memory | Sqlite) -> None:
    add(queue, "a")
    add(queue, "b")
    change(queue, look(queue, "b"), due=inf)
    clock.now += 1e8
    assert size(queue) == 2
    assert look(queue, "b").value == b"changed"
    assert keys(queue) == ["a"]


@pytest.mark.slow
def test_what_has_expired_gives_its_room_back(clock: Clock, queue: Memory | Sqlite) -> None:
    for number in range(100):
        add(queue, str(number), owner="ann")
        change(queue, look(queue, str(number)), keep=number + 1)
    clock.now += 50
    assert len(owned(queue, "ann", most=1000)) == 50
    assert size(queue) == 50
    clock.now += 50
    assert owned(queue, "ann") == []
    assert size(queue) == 0


# Whose they are


def test_somebody_s_jobs_are_listed_newest_first(clock: Clock, queue: Memory | Sqlite) -> None:
    for number in range(10):
        add(queue, str(number), line=f"s/task/{number % 3}", owner="ann" if number % 2 else "bob")
        clock.now += 1
    add(queue, "other", line="other/task/0", owner="ann")
    take(queue, "s/task/0", "s/task/1")
    change(queue, look(queue, "3"), keep=10)
    assert owned(queue, "ann") == ["9", "7", "5", "3", "1"]
    assert owned(queue, "ann", most=2) == ["9", "7"]
    assert owned(queue, "ann", after="7", most=2) == ["5", "3"]
    assert owned(queue, "ann", after="3", most=2) == ["1"]
    assert owned(queue, "ann", after="1") == []
    assert owned(queue, "ann", server="other") == ["other"]
    assert owned(queue, "eve") == []
    assert owned(queue, "", server="s") == []
    clock.now += 10
    assert owned(queue, "ann") == ["9", "7", "5", "1"]
    assert owned(queue, "ann", after="3") == []
    (first, *_) = done(queue.owned("ann", server="s", after="", most=1))
    assert first == look(queue, "9")


# What waits


def test_what_waits_is_counted(clock: Clock, queue: Memory | Sqlite) -> None:
    assert done(queue.waiting("s")) == []
    add(queue, "a")
    clock.now += 5
    for key in ("b", "c", "d", "e"):
        add(queue, key)
    add(queue, "f", line="s/task/f")
    add(queue, "g", line="s2/task/g")
    assert keys(queue, "s/task/f") == ["f"]
    clock.now += 2
    change(queue, look(queue, "c"), due=5)
    change(queue, look(queue, "d"), due=inf)
    change(queue, look(queue, "e"), keep=60)

    def seen() -> dict[str, Waiting]:
        return {each.queue: each for each in done(queue.waiting("s"))}

    assert seen() == {LINE: (LINE, 2, 2, pytest.approx(7)), "s/task/f": ("s/task/f", 0, 1, 0)}
    assert keys(queue, most=1) == ["a"]
    assert seen()[LINE] == (LINE, 1, 3, pytest.approx(2))
    clock.now += 30
    assert seen()[LINE] == (LINE, 3, 1, pytest.approx(32))
    assert seen()["s/task/f"] == ("s/task/f", 1, 0, pytest.approx(2))
