"""Topics in SQLite: the watching thread, gaps in the message log, and replaced or unreadable files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpkit.state import bulletin, database
from mcpkit.storage import Sqlite
from tests.helpers.engines import done, eventually
from tests.helpers.waiting import DEFAULT_TIMEOUT


def test_failing_read_is_logged_once_and_retried(
    shared: Sqlite, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.state.bulletin._WHILE_FAILING", 0.01)
    looks = 0
    glance = database.Database.glance

    def failing(self: Any, sql: str, values: Any = ()) -> Any:
        nonlocal looks
        looks += 1
        raise PermissionError("not now")

    messages: list[str] = []
    leave = shared.subscribe("t", messages.append)
    with monkeypatch.context() as context:
        context.setattr(database.Database, "glance", failing)
        eventually(lambda: looks > 3)
    assert database.Database.glance is glance
    asyncio.run(shared.publish("t", "a"))
    eventually(lambda: messages == ["a"])
    assert caplog.text.count("messages of other processes arrive late") == 1
    leave()


class Listener:
    """Takes note of what it hears and of what it is expected that it has missed, in order."""

    def __init__(self, shared: Sqlite, topic: str = "t") -> None:
        self.received: list[str] = []
        self.leave = shared.subscribe(topic, self.received.append, lambda: self.received.append("missed"))

    def has_received(self, *expected: str) -> Callable[[], bool]:
        return lambda: self.received == list(expected)


@contextmanager
def blocked(shared: Sqlite) -> Iterator[None]:
    """Keep the thread that looks from looking."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(message: str) -> None:
        begun.set()
        go_on.wait(DEFAULT_TIMEOUT)

    leave = shared.subscribe("hold", hold)
    done(shared.publish("hold", ""))
    assert begun.wait(DEFAULT_TIMEOUT)
    try:
        yield
    finally:
        go_on.set()
        leave()


def test_slow_listener_is_notified_of_a_gap_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulletin, "_MOST_MESSAGES", 100)
    with closing(Sqlite(path)) as shared, closing(Sqlite(path)) as other:
        first, second = Listener(shared), Listener(shared, "elsewhere")
        with blocked(shared):
            for number in range(150):
                done(other.publish("t", str(number)))
            third = Listener(shared)
        eventually(lambda: first.received[-1:] == ["149"])
        gap, *messages = first.received
        assert gap == "missed"
        assert messages == [str(number) for number in range(int(messages[0]), 150)]
        assert int(messages[0]) > 0
        done(other.publish("t", "next"))
        eventually(third.has_received("next"))
        assert first.received[-1] == "next"
        assert first.received.count("missed") == 1
        assert second.received == ["missed"]


def replace(path: Path, by: Path) -> None:
    """Put a file in the place of another one, as an operator does."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    os.replace(by, path)


def test_restored_backup_is_a_gap(tmp_path: Path, path: Path) -> None:
    with closing(Sqlite(path)) as shared:
        listener = Listener(shared)
        done(shared.publish("t", "before"))
        with closing(sqlite3.connect(path)) as file, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            file.backup(copy)
        done(shared.publish("t", "after"))
        eventually(listener.has_received("before", "after"))
        replace(path, tmp_path / "copy.db")
        eventually(listener.has_received("before", "after", "missed"))
        with closing(Sqlite(path)) as other:
            done(other.publish("t", "again"))
        eventually(listener.has_received("before", "after", "missed", "again"))
