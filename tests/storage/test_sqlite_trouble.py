"""The file that processes share, where somebody holds it up, or it cannot be used."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mcpkit import Sqlite
from mcpkit.state import database

pytestmark = pytest.mark.anyio

VALUE = bytes(range(256)) * 4096


@contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    """Have somebody else hold the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {how}")
        yield
        other.execute("ROLLBACK")


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
