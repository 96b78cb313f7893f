"""Messages in a file: who has missed some is told so, once for each gap."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mcpkit import Sqlite
from mcpkit.state import bulletin
from tests.helpers.clock import Clock
from tests.helpers.engines import done, eventually, size
from tests.helpers.waiting import PATIENCE


class Listener:
    """Takes note of what it hears and of what it is told that it has missed, in order."""

    def __init__(self, shared: Sqlite, topic: str = "t") -> None:
        self.told: list[str] = []
        self.leave = shared.subscribe(topic, self.told.append, lambda: self.told.append("missed"))

    def has_heard(self, *told: str) -> Callable[[], bool]:
        return lambda: self.told == list(told)


@contextmanager
def holding_up(shared: Sqlite) -> Iterator[None]:
    """Keep the thread that looks from looking."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(message: str) -> None:
        begun.set()
        go_on.wait(PATIENCE)

    leave = shared.subscribe("hold", hold)
    done(shared.publish("hold", ""))
    assert begun.wait(PATIENCE)
    try:
        yield
    finally:
        go_on.set()
        leave()


def lose_all(path: Path) -> None:
    """Remove the messages, as time does."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM messages")
        file.commit()


def test_who_is_too_slow_is_told_that_it_missed_messages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulletin, "_MOST_MESSAGES", 100)
    with closing(Sqlite(path)) as shared, closing(Sqlite(path)) as other:
        first, second = Listener(shared), Listener(shared, "elsewhere")
        with holding_up(shared):
            for number in range(150):
                done(other.publish("t", str(number)))
            third = Listener(shared)
        eventually(lambda: first.told[-1:] == ["149"])
        gap, *heard = first.told
        assert gap == "missed"
        assert heard == [str(number) for number in range(int(heard[0]), 150)]
        assert int(heard[0]) > 0
        done(other.publish("t", "next"))
        eventually(third.has_heard("next"))
        assert first.told[-1] == "next"
        assert first.told.count("missed") == 1
        assert second.told == ["missed"]


def test_who_is_later_than_messages_are_kept_is_told_so(path: Path) -> None:
    clock = Clock()
    with closing(Sqlite(path, clock=clock)) as shared, closing(Sqlite(path, clock=clock)) as other:
        listener = Listener(shared)
        with holding_up(shared):
            done(other.publish("t", "lost"))
            clock.now += 30
            size(other)
        eventually(listener.has_heard("missed"))
        done(other.publish("t", "heard"))
        eventually(listener.has_heard("missed", "heard"))


def test_each_gap_is_told_once(shared: Sqlite, path: Path) -> None:
    listener = Listener(shared)
    for turn in range(1, 4):
        with holding_up(shared):
            done(shared.publish("t", "lost"))
            done(shared.publish("t", "lost, too"))
            lose_all(path)
            if turn == 2:
                done(shared.publish("t", "not lost"))
        expected = ["missed"] * turn + (["not lost"] if turn == 2 else [])
        eventually(lambda: listener.told[-len(expected) :] == expected)
        listener.told[:] = ["missed"] * turn
    done(shared.publish("t", "end"))
    eventually(listener.has_heard(*["missed"] * 3, "end"))


def test_what_has_been_heard_may_be_removed(shared: Sqlite, path: Path) -> None:
    listener = Listener(shared)
    for number in range(5):
        done(shared.publish("t", str(number)))
        eventually(lambda: listener.told[-1:] == [str(number)])
        lose_all(path)
    assert listener.told == [str(number) for number in range(5)]


def test_a_listener_that_fails_when_it_has_missed_something_is_logged(
    shared: Sqlite, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise LookupError("missed")

    shared.subscribe("t", lambda _: None, fail)
    shared.subscribe("t", lambda _: None)
    listener = Listener(shared)
    with holding_up(shared):
        done(shared.publish("t", "lost"))
        lose_all(path)
    eventually(listener.has_heard("missed"))
    assert "A listener of the topic t failed" in caplog.text


# Other files


def replace(path: Path, by: Path) -> None:
    """Put a file in the place of another one, as an operator does."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    os.replace(by, path)


def test_who_listens_notices_a_file_that_takes_the_place_of_another_one(tmp_path: Path, path: Path) -> None:
    with closing(Sqlite(path)) as shared, closing(Sqlite(tmp_path / "new.db")) as new:
        listener = Listener(shared)
        done(shared.publish("t", "old"))
        eventually(listener.has_heard("old"))
        done(new.publish("t", "new"))
        new.close()
        replace(path, tmp_path / "new.db")  # nobody here writes
        eventually(listener.has_heard("old", "missed", "new"))
        with closing(Sqlite(path)) as other:
            done(other.publish("t", "next"))
        eventually(listener.has_heard("old", "missed", "new", "next"))


def test_a_file_that_is_removed_is_made_anew_by_who_writes(path: Path) -> None:
    with closing(Sqlite(path)) as shared:
        listener = Listener(shared)
        done(shared.erase("nothing"))
        for each in path.parent.iterdir():
            each.unlink()
        with closing(Sqlite(path)) as other:
            done(other.publish("t", "new"))
            eventually(listener.has_heard("missed", "new"))


def test_a_file_that_is_taken_back_to_what_it_was_is_noticed(tmp_path: Path, path: Path) -> None:
    with closing(Sqlite(path)) as shared:
        listener = Listener(shared)
        done(shared.publish("t", "before"))
        with (
            closing(sqlite3.connect(path)) as file,
            closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
        ):
            file.backup(copy)
        done(shared.publish("t", "after"))
        eventually(listener.has_heard("before", "after"))
        replace(path, tmp_path / "copy.db")
        eventually(listener.has_heard("before", "after", "missed"))
        with closing(Sqlite(path)) as other:
            done(other.publish("t", "again"))
        eventually(listener.has_heard("before", "after", "missed", "again"))


# Files that cannot be read


@pytest.mark.slow
def test_who_listens_to_a_file_that_cannot_be_read_is_told_when_it_can(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "shared.db"
    with closing(Sqlite(path)) as shared:
        listener = Listener(shared)
        with pytest.raises(OSError, match="No such file"):
            done(shared.listening())
        assert listener.told == []
        path.parent.mkdir()
        eventually(listener.has_heard("missed"))
        done(shared.publish("t", "a"))
        eventually(listener.has_heard("missed", "a"))


@pytest.mark.slow
def test_who_waits_until_it_hears_has_missed_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "shared.db"
    with closing(Sqlite(path)) as shared, closing(Sqlite(path)) as other:
        shared.subscribe("t", lambda _: None)  # which is being looked for once in a second by now
        with pytest.raises(OSError, match="No such file"):
            done(shared.listening())
        listener = Listener(shared)
        path.parent.mkdir()
        done(shared.listening())
        heard = list(listener.told)
        assert heard in ([], ["missed"])
        done(other.publish("t", "a"))
        eventually(listener.has_heard(*heard, "a"))


def test_a_file_that_could_not_be_read_for_a_while_has_lost_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulletin, "_WHILE_FAILING", 0.01)
    with closing(Sqlite(path)) as shared, closing(Sqlite(path)) as other:
        listener = Listener(shared)
        failed = threading.Event()

        def fail() -> None:
            failed.set()
            raise PermissionError("not now")

        with monkeypatch.context() as context:
            context.setattr(shared._database, "follow", fail)
            assert failed.wait(PATIENCE)
            asyncio.run(other.publish("t", "meanwhile"))
        eventually(listener.has_heard("meanwhile"))
