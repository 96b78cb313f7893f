"""The SQLite engine: the file, access rights, locks, unusable files, format versions, network disks and topics."""

import asyncio
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from mcpkit.storage import Sqlite, sqlite, sqlite_connections_and_tables
from mcpkit.storage.sqlite import _delete_expired
from tests.helpers.engines import LINE, add, done, put
from tests.helpers.waiting import DEFAULT_TIMEOUT, Clock, eventually, until

VALUE = bytes(range(256)) * 4096


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
async def test_files_are_private_to_their_owner(shared: Sqlite, path: Path) -> None:
    before = os.umask(0)
    try:
        await shared.write("a", {"x": "1"}, 60)
        await shared.put("a", VALUE, version=None, ttl=60)
    finally:
        os.umask(before)
    assert {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {
        "shared.db": 0o600,
        "shared.db-wal": 0o600,
        "shared.db-shm": 0o600,
    }


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
@pytest.mark.parametrize(("mode", "warnings"), [(0o602, 1), (0o660, 0)])
async def test_file_open_to_others_is_logged_once(path: Path, mode: int, warnings: int, caplog) -> None:
    path.touch()
    path.chmod(mode)
    with closing(Sqlite(path)) as shared:
        for _ in range(2):
            await shared.write("a", {"x": "1"}, 60)
            shared.close()
    lines = f"{path} can be accessed by other users of this machine (mode {mode:04o}). Run chmod 600 on it"
    assert caplog.messages == [lines] * warnings


async def test_data_survives_close_and_reopen(path: Path) -> None:
    with closing(Sqlite(path)) as first:
        assert first.is_persistent
        home = first.store_id
        await first.write("a", {"x": "1"}, 60)
        assert await first.claim("b", 60)
        version = await first.put("a", VALUE, version=None, ttl=60)
    assert [each.name for each in path.parent.iterdir()] == ["shared.db"]
    with closing(Sqlite(path)) as second:
        assert second.store_id == home
        assert await second.read("a") == {"x": "1"}
        assert not await second.claim("b", 60)
        assert await second.get("a") == (VALUE, version)
    with closing(Sqlite(path.with_name("other.db"))) as other:
        assert other.store_id not in {home, ""}
        assert len(home) <= 64
        assert home.isascii()


async def test_replaced_file_is_opened_anew(shared: Sqlite, path: Path) -> None:
    messages: list[str] = []
    leave = shared.subscribe("t", messages.append)
    await shared.write("a", {"x": "1"}, 60)
    home = shared.store_id
    for each in path.parent.iterdir():
        each.unlink()
    with closing(Sqlite(path)) as other:
        await other.publish("t", "new")
        await other.write("b", {"x": "2"}, 60)
        await shared.write("c", {"x": "3"}, 60)  # what is written sees it
        assert await shared.read("a") == {}
        assert await shared.read("b") == {"x": "2"}
        assert await other.read("c") == {"x": "3"}
        assert shared.store_id == other.store_id != home
        await until(lambda: messages == ["new"])
    leave()


async def test_earlier_format_is_migrated_and_later_format_refused(path: Path, monkeypatch) -> None:
    with closing(Sqlite(path)) as before:
        home = before.store_id
        await before.write("a", {"x": "1"}, 60)
        later = (*sqlite_connections_and_tables._MIGRATIONS, ("ALTER TABLE records ADD COLUMN more TEXT",))
        monkeypatch.setattr(sqlite_connections_and_tables, "_MIGRATIONS", later)
        with closing(Sqlite(path)) as after:
            assert await after.read("a") == {"x": "1"}
            assert after.store_id == home
        monkeypatch.undo()
        await before.write("a", {"x": "2"}, 60)  # who has it open goes on
        assert await before.read("a") == {"x": "2"}
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (
            len(sqlite_connections_and_tables._MIGRATIONS) + 1,
        )
    with closing(Sqlite(path)) as older, pytest.raises(OSError, match="later version"):
        await older.read("a")


# Locks


@contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    """Lock the file from another connection."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {how}")
        yield
        other.execute("ROLLBACK")


async def test_lasting_lock_raises_timeout_for_all_waiting_writes(shared, path, monkeypatch) -> None:
    monkeypatch.setattr(sqlite_connections_and_tables, "DEFAULT_TIMEOUT", 0.5)
    await shared.write("a", {"x": "1"}, 60)
    shared.close()  # the next connection has the patience of the test
    with locked(path, "IMMEDIATE"):
        loop = asyncio.get_running_loop()
        start = loop.time()
        results = await asyncio.gather(
            *(shared.write("a", {"x": "2"}, 60) for _ in range(20)), return_exceptions=True
        )
        assert loop.time() - start < 5
        assert {type(each) for each in results} == {TimeoutError}
        assert str(results[0]).startswith(f"{path} is locked by another process")
    assert await shared.read("a") == {"x": "1"}
    await shared.write("a", {"x": "3"}, 60)
    assert await shared.read("a") == {"x": "3"}


# Unusable files


def execute(path: Path, statement: str) -> None:
    with closing(Sqlite(path)) as shared, closing(sqlite3.connect(path)) as other:
        assert statement.startswith("CREATE") or shared.store_id
        other.execute(statement)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b"garbage! " * 1000), "is damaged or not an SQLite database ("),
        (lambda path: path.mkdir(), "cannot be opened ("),
        (
            lambda path: execute(path, "CREATE TABLE t (a)"),
            "is the database of another program. Use another file",
        ),
        (
            lambda path: execute(path, "PRAGMA user_version = 99"),
            "was written by a later version of mcpkit (format 99",
        ),
    ],
    ids=["garbage", "folder", "foreign", "newer"],
)
async def test_unusable_file_raises_and_is_left_unchanged(make, words, shared, path) -> None:
    make(path)
    before = b"" if path.is_dir() else path.read_bytes()
    messages: list[str] = []
    leave = shared.subscribe("t", messages.append)
    for use in (
        shared.read("a"),
        shared.write("a", {"x": "1"}, 60),
        shared.claim("a", 60),
        shared.erase("a"),
        shared.publish("t", "lost"),
        shared.get("a"),
        shared.put("a", b"", version=None, ttl=60),
        shared.delete("a", version="x"),
    ):
        with pytest.raises(OSError, match=re.escape(f"{path} {words}")):
            await use
    assert shared.store_id == ""
    assert (b"" if path.is_dir() else path.read_bytes()) == before
    path.rmdir() if path.is_dir() else path.unlink()  # the engine works as soon as the file is usable
    while not messages:  # messages are lost until the engine has opened the new file
        await shared.publish("t", "messages")
        await asyncio.sleep(0.01)
    leave()


def test_clean_up_reports_whether_more_has_expired(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.storage.sqlite._CLEAN_UP_BATCH", 2)
    clock = Clock()
    with closing(Sqlite(path, clock=clock)) as shared:
        for key in "abc":
            put(shared, key)
        clock.now += 100
        found = [done(shared._database.run(lambda each: _delete_expired(each, clock()))) for _ in range(3)]
    assert found == [True, False, False]


# Network disks and durability


@pytest.fixture
def network_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on a network disk in Linux's table of mounts, with a blank in its name."""
    folder = tmp_path / "on the network"
    folder.mkdir()
    lines = tmp_path / "mountinfo"
    lines.write_text(
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "what is no line\n"
        f"50 27 0:50 / {folder.as_posix().replace(' ', chr(92) + '040')} rw,relatime shared:1 - nfs4 nas:/x rw\n"
        f"51 50 0:51 / {folder.as_posix().replace(' ', chr(92) + '040')}/local rw - xfs /dev/vdb rw\n"
    )
    monkeypatch.setattr(sqlite_connections_and_tables, "_MOUNTS", lines)
    return folder


@pytest.mark.skipif(os.name == "nt", reason="its paths are others")
def test_file_on_a_network_disk_is_refused(network_disk: Path) -> None:
    with closing(Sqlite(network_disk / "shared.db")) as shared:
        message = r"on a network file system \(nfs4\).*Use a file on a local disk"
        for use in (shared.claim("a", 60), shared.read("a"), shared.listening()):
            with pytest.raises(OSError, match=message):
                done(use)
        assert shared.store_id == ""
    assert list(network_disk.iterdir()) == []
    with closing(Sqlite(network_disk / "local.db")) as shared, pytest.raises(OSError, match="nfs4"):
        done(shared.claim("a", 60))
    (network_disk / "local").mkdir()
    with closing(Sqlite(network_disk / "local" / "shared.db")) as shared:
        assert done(shared.claim("a", 60))


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_name_without_a_file_is_refused(name: str) -> None:
    message = r"names no file that other processes can open\. Name a file, or use Memory\(\)"
    with pytest.raises(ValueError, match=message):
        Sqlite(name)


def test_failing_read_is_logged_once_and_retried(shared: Sqlite, path: Path, caplog, monkeypatch) -> None:
    monkeypatch.setattr("mcpkit.storage.sqlite._RETRY_INTERVAL", 0.01)
    failing = Mock(side_effect=PermissionError("not now"))
    messages: list[str] = []
    leave = shared.subscribe("t", messages.append)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_connections_and_tables.Database, "read_now", failing)
        eventually(lambda: failing.call_count > 3)
    asyncio.run(shared.publish("t", "a"))
    eventually(lambda: messages == ["a"])
    assert caplog.text.count("messages of other processes arrive late") == 1
    leave()


def test_job_is_announced_before_the_next_poll(shared: Sqlite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_INTERVAL", 600.0)
    listener = Listener(shared, LINE)
    done(shared.publish(LINE, "first"))
    eventually(listener.has_received("first"))
    add(shared, "a")
    eventually(listener.has_received("first", ""))
    listener.leave()


class Listener:
    """Records messages and gaps of a topic, in order."""

    def __init__(self, shared: Sqlite, topic: str = "t") -> None:
        self.received: list[str] = []
        self.leave = shared.subscribe(topic, self.received.append, lambda: self.received.append("missed"))

    def has_received(self, *expected: str) -> Callable[[], bool]:
        return lambda: self.received == list(expected)


@contextmanager
def blocked(shared: Sqlite) -> Iterator[None]:
    """Keep the thread that looks from looking."""
    begun, go_on = threading.Event(), threading.Event()

    def block(message: str) -> None:
        begun.set()
        go_on.wait(DEFAULT_TIMEOUT)

    leave = shared.subscribe("block", block)
    done(shared.publish("block", ""))
    assert begun.wait(DEFAULT_TIMEOUT)
    try:
        yield
    finally:
        go_on.set()
        leave()


def test_slow_listener_is_notified_of_a_gap_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_MAX_MESSAGES", 100)
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


def test_restored_backup_is_a_gap(tmp_path: Path, path: Path) -> None:
    with closing(Sqlite(path)) as shared:
        listener = Listener(shared)
        done(shared.publish("t", "before"))
        with closing(sqlite3.connect(path)) as file, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            file.backup(copy)
        done(shared.publish("t", "after"))
        eventually(listener.has_received("before", "after"))
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink()
        os.replace(tmp_path / "copy.db", path)
        eventually(listener.has_received("before", "after", "missed"))
        with closing(Sqlite(path)) as other:
            done(other.publish("t", "again"))
        eventually(listener.has_received("before", "after", "missed", "again"))
