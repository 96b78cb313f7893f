"""Which processes serve, as each of them sees it; the engine in memory, and what `Server(shared=)` accepts."""

import asyncio
import logging
from collections.abc import Mapping

import pytest

from mcpkit import Server
from mcpkit.storage import Memory
from mcpkit.storage.jobs_and_heartbeats import _FORGOTTEN, MISSED, Membership
from tests.helpers.engines import delete, done, put
from tests.helpers.waiting import Clock, over, until


def beat(*members: Membership, times: int = 1) -> None:
    for _ in range(times):
        for each in members:
            done(each.poll())


@pytest.fixture
def engine() -> Memory:
    return Memory()


@pytest.fixture
def processes(engine: Memory) -> list[Membership]:
    """Three processes that have seen each other, the first two the latest beat of the third."""
    present = [Membership(engine, "s", process) for process in "abc"]
    beat(*present, *present, *present[:2])
    return present


def test_process_without_heartbeat_is_gone_and_forgotten_after_several_beats(engine, processes):
    one, two, _ = processes
    beat(one, two, times=MISSED - 1)
    assert not one.is_gone("c")
    assert one.count() == 3
    beat(one, two)
    assert one.is_gone("c")
    assert two.is_gone("c")
    assert not one.is_gone("b")
    assert one.count() == 2
    beat(one, two, times=_FORGOTTEN)
    assert set(done(engine.read("s/presence"))) == {"a", "b"}


def test_process_that_leaves_is_gone_at_the_next_beat(processes):
    one, _, three = processes
    done(three.leave())
    assert not one.is_gone("c")
    beat(one)
    assert one.is_gone("c")
    assert one.count() == 2


class FailingStore(Memory):
    """A store with reads that fail while `fails` is true."""

    fails = False

    async def read(self, key: str) -> Mapping[str, str]:
        if self.fails:
            raise ConnectionError("the store is down")
        return await super().read(key)


async def test_failing_store_reports_no_process_as_gone_and_is_logged_once(caplog) -> None:
    store = FailingStore()
    here, there = (Membership(store, "s", process, beat=0.001) for process in "ab")
    tasks = [asyncio.create_task(each.run()) for each in (here, there)]
    await until(lambda: here.count() == there.count() == 2)
    store.fails = True
    await until(lambda: "cannot see which other processes are running" in caplog.text)
    await over(tasks[1])
    polls = here._polls
    await asyncio.sleep(0.02)
    assert here._polls == polls
    assert not here.is_gone("b")
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 2, (
        "each process logs it once"
    )
    store.fails = False
    await until(lambda: here.is_gone("b"))
    await here.leave()
    await over(tasks[0])


def test_expired_values_are_freed_by_the_next_call(clock: Clock) -> None:
    for write in (
        lambda: put(store, "other"),
        lambda: delete(store, "other", "made up"),
        lambda: store.sweep(),
    ):
        store = Memory(clock)
        for number in range(8):
            put(store, str(number))
        assert len(store) == 8
        clock.now += 60
        write()
        assert len(store) <= 1


def test_key_that_is_written_often_takes_no_more_memory() -> None:
    store = Memory()
    for number in range(1000):
        done(store.write("often", {"a": str(number)}, 60))
    assert len(store._records._expiries) < 100


SECRET = "a secret of sixteen bytes and more"


class Lasting(Memory):
    """An engine that claims to outlive the process."""

    is_persistent = True


def test_server_with_a_lasting_engine_requires_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)
    message = r"Lasting\(\.\.\.\) keeps encrypted data.*Set MCPKIT_SECRET or write"
    with pytest.raises(ValueError, match=message):
        Server("s", storage=Lasting())
    Server("s", storage=Lasting(), secret_key=SECRET)
    Server("s", storage=Memory())
    monkeypatch.setenv("MCPKIT_SECRET", SECRET)
    Server("s", storage=Lasting())


def test_server_names_the_missing_methods_of_an_engine() -> None:
    class Half:
        is_persistent = True
        home = "here"
        read = write = claim = publish = subscribe = get = put = delete = Memory.get

    missing = "erase, take_tokens, listening, items"
    with pytest.raises(
        TypeError, match=f"storage lacks {missing}. Implement all members of mcpkit.storage.Storage"
    ):
        Server("s", storage=Half(), secret_key=SECRET)  # type: ignore[arg-type]  # the mistake
