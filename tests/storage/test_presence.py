"""Which processes serve, as each of them sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.state.presence import _FORGOTTEN, MISSED, Presence
from tests.helpers.engines import done
from tests.helpers.waiting import over, until


@pytest.fixture
def present(engine: Memory | Sqlite) -> list[Presence]:
    """Three processes that have seen each other."""
    made = [Presence(engine, "s", process) for process in "abc"]
    for _ in range(2):
        look(*made)
    look(*made[:2])  # who have seen the third one's latest
    return made


def look(*processes: Presence, times: int = 1) -> None:
    for _ in range(times):
        for each in processes:
            done(each.look())


def test_each_is_counted(present):
    assert [each.count() for each in present] == [3, 3, 3]


def test_one_alone_counts_itself(engine):
    alone = Presence(engine, "s", "a")
    assert alone.count() == 1
    look(alone, times=MISSED)
    assert alone.count() == 1
    assert not alone.is_gone("a")


def test_who_stops_is_gone_after_some_looks_and_not_before(present):
    one, two, _ = present
    look(one, two, times=MISSED - 1)
    assert not one.is_gone("c")
    assert one.count() == 3
    look(one, two)
    assert one.is_gone("c")
    assert two.is_gone("c")
    assert not one.is_gone("b")
    assert one.count() == 2


def test_who_goes_on_is_back(present):
    one, _, three = present
    look(one, times=MISSED)
    assert one.is_gone("c")
    look(three)
    look(one)
    assert not one.is_gone("c")


def test_who_ends_is_gone_at_the_next_look(present):
    one, _, three = present
    done(three.leave())
    assert not one.is_gone("c")
    look(one)
    assert one.is_gone("c")
    assert one.count() == 2


def test_who_begins_to_look_takes_nobody_for_dead_at_once(engine):
    look(Presence(engine, "s", "old"))
    new = Presence(engine, "s", "new")
    for _ in range(MISSED):
        look(new)
        assert not new.is_gone("old")
    look(new)
    assert new.is_gone("old")


def test_who_was_never_seen_is_gone_in_the_end(present):
    one = present[0]
    assert not one.is_gone("nobody")
    look(one, times=MISSED)
    assert one.is_gone("nobody")


def test_a_record_that_is_lost_makes_nobody_die(engine, present):
    one, two, three = present
    look(one, two, times=MISSED - 1)
    done(engine.erase("s/presence"))
    look(one, two, times=MISSED - 1)
    assert not one.is_gone("c")
    look(three, one)
    assert one.count() == 3


def test_the_record_holds_nobody_for_ever(engine, present):
    one, two, _ = present
    look(one, two, times=_FORGOTTEN)
    assert set(done(engine.read("s/presence"))) == {"a", "b"}
    assert one.count() == 2


def test_a_record_that_nobody_writes_expires(engine, present, clock):
    clock.now += 61
    assert done(engine.read("s/presence")) == {}


def test_servers_of_other_names_are_others(engine, present):
    look(other := Presence(engine, "t", "a"), times=2)
    assert other.count() == 1


class Failing(Memory):
    """A store that can be made to fail."""

    fails = False

    async def read(self, key: str) -> Mapping[str, str]:
        if self.fails:
            raise ConnectionError("the store is down")
        return await super().read(key)


@pytest.mark.anyio
async def test_a_store_that_fails_makes_nobody_die_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing()
    here, there = (Presence(store, "s", process, beat=0.001) for process in "ab")
    tasks = [asyncio.create_task(each.run()) for each in (here, there)]
    await until(lambda: here.count() == there.count() == 2)
    store.fails = True
    await until(lambda: "nobody knows which processes serve" in caplog.text)
    await over(tasks[1])
    looks = here._looks
    await asyncio.sleep(0.02)
    assert here._looks == looks
    assert not here.is_gone("b")
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 2, "each says it once"
    store.fails = False
    await until(lambda: here.is_gone("b"))
    await here.leave()
    await over(tasks[0])


@pytest.mark.anyio
async def test_who_cannot_say_that_it_ends_ends_all_the_same() -> None:
    class Broken(Memory):
        async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
            raise TimeoutError

    await Presence(Broken(), "s", "a").leave()
