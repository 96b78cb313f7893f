"""The file that processes share: who may read it, and what becomes of servers where it cannot be used."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines import eventually
from mcpkit import Sqlite
from mcpkit.state import database, tables
from waiting import until

pytestmark = pytest.mark.anyio

VALUE = bytes(range(256)) * 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


@pytest.fixture
def shared(path: Path) -> Iterator[Sqlite]:
    with closing(Sqlite(path)) as made:
        yield made


@contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    """Have somebody else hold the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {how}")
        yield
        other.execute("ROLLBACK")


def watchers() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "mcpkit-sqlite-bus"]


# The file


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_what_names_no_file_is_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"has no file that others could open: name one, or write Memory\(\)"
    ):
        Sqlite(name)


@pytest.mark.parametrize("name", [5, None, b"shared.db"])
def test_what_is_no_path_is_refused(name: Any) -> None:
    with pytest.raises(TypeError):
        Sqlite(name)


async def test_nothing_is_made_before_it_is_used(path: Path) -> None:
    shared = Sqlite(path)
    assert not path.exists()
    assert repr(shared) == f"Sqlite({str(path)!r})"
    shared.close()
    assert not path.exists()


async def test_a_path_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Sqlite("here.db")) as shared:
        monkeypatch.chdir("/")
        await shared.erase("a")
    assert (tmp_path / "here.db").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
async def test_only_its_owner_reads_it(shared: Sqlite, path: Path) -> None:
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


async def test_what_is_kept_outlives_it(path: Path) -> None:
    with closing(Sqlite(path)) as first:
        assert first.is_lasting
        home = first.home
        await first.write("a", {"x": "1"}, 60)
        assert await first.claim("b", 60)
        version = await first.put("a", VALUE, version=None, ttl=60)
    assert [each.name for each in path.parent.iterdir()] == ["shared.db"]
    with closing(Sqlite(path)) as second:
        assert second.home == home
        assert await second.read("a") == {"x": "1"}
        assert not await second.claim("b", 60)
        assert await second.get("a") == (VALUE, version)
    with closing(Sqlite(path.with_name("other.db"))) as other:
        assert other.home not in {home, ""}
        assert len(home) <= 64
        assert home.isascii()


async def test_it_may_be_used_again_after_it_was_closed(shared: Sqlite) -> None:
    await shared.write("a", {"x": "1"}, 60)
    shared.close()
    assert await shared.read("a") == {"x": "1"}
    shared.close()
    await shared.write("a", {"x": "2"}, 60)
    assert await shared.read("a") == {"x": "2"}


async def test_a_file_that_is_replaced_is_left_for_the_new_one(shared: Sqlite, path: Path) -> None:
    heard: list[str] = []
    leave = shared.subscribe("t", heard.append)
    await shared.write("a", {"x": "1"}, 60)
    home = shared.home
    for each in path.parent.iterdir():
        each.unlink()
    with closing(Sqlite(path)) as other:
        await other.publish("t", "new")
        await other.write("b", {"x": "2"}, 60)
        await shared.write("c", {"x": "3"}, 60)  # what is written sees it
        assert await shared.read("a") == {}
        assert await shared.read("b") == {"x": "2"}
        assert await other.read("c") == {"x": "3"}
        assert shared.home == other.home != home
        await until(lambda: heard == ["new"])
    leave()


@pytest.mark.parametrize("first", ["read", "written"])
async def test_of_a_file_that_is_replaced_none_is_read_while_the_other_is_written(
    first: str, path: Path
) -> None:
    with closing(Sqlite(path)) as shared:
        if first == "read":
            assert shared.home
        else:
            await shared.write("a", {"x": "1"}, 60)
            shared._database._close_reader()  # as after an error
        for each in path.parent.iterdir():
            each.unlink()
        if first == "written":
            assert shared._database.glance("SELECT key FROM records") == []
        for number in range(3):
            await shared.write("b", {"x": str(number)}, 60)
            assert await shared.read("b") == {"x": str(number)}
        with closing(Sqlite(path)) as other:
            assert await other.read("b") == {"x": "2"}


# Waiting


async def test_reading_waits_for_nobody_who_writes(shared: Sqlite, path: Path) -> None:
    await shared.write("a", {"x": "1"}, 60)
    version = await shared.put("a", VALUE, version=None, ttl=60)
    small = await shared.put("b", b"1", version=None, ttl=60)
    with locked(path, "IMMEDIATE"):
        assert await shared.read("a") == {"x": "1"}
        assert await shared.get("b") == (b"1", small)
        assert await shared.get("a") == (VALUE, version)


async def test_the_event_loop_goes_on_while_a_write_waits(shared: Sqlite, path: Path) -> None:
    await shared.write("a", {"x": "1"}, 60)
    with locked(path, "IMMEDIATE"):
        writing = asyncio.ensure_future(shared.write("a", {"x": "2"}, 60))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not writing.done()
    await writing
    assert await shared.read("a") == {"x": "2"}


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_lock_that_stays_is_an_error_and_holds_up_what_comes_later_no_longer(
    how: str, shared: Sqlite, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    await shared.write("a", {"x": "1"}, 60)
    shared.close()  # the next connection has the patience of the test
    with locked(path, how):
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


async def test_what_is_opened_while_it_is_locked_holds_up_nobody(shared: Sqlite, path: Path) -> None:
    with closing(Sqlite(path)) as other:
        await other.write("a", {"x": "1"}, 60)
        other.close()
        with locked(path, "EXCLUSIVE"):
            loop = asyncio.get_running_loop()
            writing = asyncio.ensure_future(shared.write("b", {"x": "1"}, 60))
            await asyncio.sleep(0)
            start = loop.time()
            leave = shared.subscribe("t", lambda _: None)
            assert shared.home in {"", other.home}
            assert loop.time() - start < 2  # where it waits, that is 5 s
            assert not writing.done()
        await writing
        leave()


async def test_who_does_not_wait_any_more_leaves_the_others_alone(shared: Sqlite, path: Path) -> None:
    await shared.erase("nothing")
    with locked(path, "IMMEDIATE"):
        writing = [asyncio.ensure_future(shared.write(key, {"x": "1"}, 60)) for key in "ab"]
        await asyncio.sleep(0)
        writing[0].cancel()
    await writing[1]
    assert writing[0].cancelled()
    assert await shared.read("b") == {"x": "1"}


# What cannot be used


def make_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (a)")


def make_newer(path: Path) -> None:
    with closing(Sqlite(path)) as shared:
        assert shared.home
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")


UNUSABLE = {
    "garbage": (
        lambda path: path.write_bytes(b"garbage! " * 1000),
        "is damaged, or no database: move it away",
    ),
    "folder": (lambda path: path.mkdir(), "cannot be opened: is there the folder"),
    "foreign": (make_foreign, "is the database of another program: name another file"),
    "newer": (
        make_newer,
        "was written by a later version of mcpkit (its format is 99, the latest known here is",
    ),
}


def contents(path: Path) -> bytes:
    return b"" if path.is_dir() else path.read_bytes()


@pytest.mark.parametrize("name", UNUSABLE)
async def test_what_cannot_be_used_is_an_error_and_left_alone(name: str, shared: Sqlite, path: Path) -> None:
    make, words = UNUSABLE[name]
    make(path)
    before = contents(path)
    heard: list[str] = []
    leave = shared.subscribe("t", heard.append)
    for _ in range(2):
        assert shared.home == ""
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
    assert contents(path) == before
    # It is usable again as soon as the file is.
    path.rmdir() if path.is_dir() else path.unlink()
    while not heard:  # what is published before it has been looked at again is not
        await shared.publish("t", "heard")
        await asyncio.sleep(0.01)
    leave()


async def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with closing(Sqlite(tmp_path / "missing" / "shared.db")) as shared:
        with pytest.raises(FileNotFoundError, match=r"missing/shared\.db"):
            await shared.read("a")
        (tmp_path / "missing").mkdir()
        assert await shared.read("a") == {}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
async def test_a_file_that_must_not_be_written_is_read(path: Path, tmp_path: Path) -> None:
    with closing(Sqlite(path)) as shared:
        await shared.write("a", {"x": "1"}, 60)
    path.chmod(0o444)
    tmp_path.chmod(0o777)
    folders = [each for each in tmp_path.parents if each.stat().st_mode & 0o005 == 0]
    modes = [each.stat().st_mode for each in folders]
    is_root = os.geteuid() == 0  # who may write whatever the rights are
    try:
        if is_root:
            for each in folders:
                each.chmod(0o755)
            os.seteuid(65534)
        with closing(Sqlite(path)) as shared:
            assert await shared.read("a") == {"x": "1"}
            with pytest.raises(
                PermissionError, match=r"shared\.db cannot be written: make it, and its folder, writable"
            ):
                await shared.write("a", {"x": "2"}, 60)
            assert await shared.read("a") == {"x": "1"}
    finally:
        if is_root:
            os.seteuid(0)
            for each, mode in zip(folders, modes, strict=True):
                each.chmod(mode)


async def test_damage_in_the_middle_is_an_error(path: Path) -> None:
    with closing(Sqlite(path)) as shared:
        for number in range(200):
            await shared.put(str(number), VALUE[:3000], version=None, ttl=60)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with closing(Sqlite(path)) as shared:
        for _ in range(2):
            with pytest.raises(OSError, match="is damaged, or no database"):
                await shared.put("new", VALUE, version=None, ttl=60)


# Versions of the file


async def test_a_file_of_the_version_before_becomes_one_of_this(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Sqlite(path)) as before:
        home = before.home
        await before.write("a", {"x": "1"}, 60)
        later = (*tables._STEPS, ("ALTER TABLE records ADD COLUMN more TEXT",))
        monkeypatch.setattr(tables, "_STEPS", later)
        with closing(Sqlite(path)) as after:
            assert await after.read("a") == {"x": "1"}
            assert after.home == home
        monkeypatch.undo()
        await before.write("a", {"x": "2"}, 60)  # who has it open goes on
        assert await before.read("a") == {"x": "2"}
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(tables._STEPS) + 1,)
    with closing(Sqlite(path)) as older, pytest.raises(OSError, match="later version"):
        await older.read("a")


async def test_all_who_make_it_at_once_have_one_file(path: Path) -> None:
    engines = [Sqlite(path) for _ in range(8)]
    await asyncio.gather(*(each.write(str(number), {"x": "1"}, 60) for number, each in enumerate(engines)))
    assert len({each.home for each in engines}) == 1
    for number in range(8):
        assert await engines[0].read(str(number)) == {"x": "1"}
    for each in engines:
        each.close()


# Messages


async def test_nothing_is_looked_for_while_nobody_listens(shared: Sqlite) -> None:
    await shared.publish("t", "nobody listens")
    assert watchers() == []
    leave = [shared.subscribe("t", lambda _: None) for _ in range(2)]
    assert watchers() == ["mcpkit-sqlite-bus"]
    leave.pop()()
    await shared.publish("t", "a")
    assert watchers() == ["mcpkit-sqlite-bus"]
    leave.pop()()
    await until(lambda: watchers() == [])
    shared.subscribe("t", lambda _: None)
    shared.close()
    assert watchers() == []


async def test_other_processes_are_heard_within_a_quarter_of_a_second(shared: Sqlite, path: Path) -> None:
    loop = asyncio.get_running_loop()
    with closing(Sqlite(path)) as other:
        heard: list[tuple[str, float]] = []
        leave = shared.subscribe("t", lambda message: heard.append((message, loop.time())))
        took = []
        for number in range(10):
            start = loop.time()
            await other.publish("t", str(number))
            await until(lambda number=number: len(heard) > number)
            took.append(heard[number][1] - start)
        assert [message for message, _ in heard] == [str(number) for number in range(10)]
        assert sorted(took)[5] < 0.25
        leave()


def test_what_fails_is_logged_once_and_tried_again(
    shared: Sqlite, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.state.bulletin._WHILE_FAILING", 0.01)
    looks = 0
    glance = database.Database.glance

    def failing(self: Any, sql: str, values: Any = ()) -> Any:
        nonlocal looks
        looks += 1
        raise PermissionError("not now")

    heard: list[str] = []
    leave = shared.subscribe("t", heard.append)
    with monkeypatch.context() as context:
        context.setattr(database.Database, "glance", failing)
        eventually(lambda: looks > 3)
    assert database.Database.glance is glance
    asyncio.run(shared.publish("t", "a"))
    eventually(lambda: heard == ["a"])
    assert caplog.text.count("what other processes publish is not heard") == 1
    leave()
