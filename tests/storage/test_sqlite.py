"""The file that processes share: who may read it, how it grows old, and what is heard through it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server, Sqlite
from mcpkit.state import database, tables
from tests.helpers.clock import Clock
from tests.helpers.engines import eventually
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

VALUE = bytes(range(256)) * 4096


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
@pytest.mark.parametrize(("mode", "warnings"), [(0o644, 1), (0o602, 1), (0o660, 0)])
async def test_a_file_that_others_can_open_is_warned_of_once(
    path: Path, mode: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    path.touch()
    path.chmod(mode)
    with closing(Sqlite(path)) as shared:
        for _ in range(2):
            await shared.write("a", {"x": "1"}, 60)
            shared.close()
    told = f"{path} is open to all users of this machine (mode {mode:04o}): chmod 600"
    assert caplog.messages == [told] * warnings


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


# Its size


@pytest.mark.slow
async def test_all_that_has_expired_is_removed_however_much_it_is(path: Path) -> None:
    clock = Clock()
    with closing(Sqlite(path, clock=clock)) as shared:
        for _ in range(10):
            await asyncio.gather(*(shared.write(os.urandom(8).hex(), {"x": "1"}, 10) for _ in range(500)))
    clock.now += 10
    with closing(Sqlite(path, clock=clock)) as shared:  # which looks when it begins
        for _ in range(6):
            assert await shared.claim(os.urandom(8).hex(), 60)
        assert await shared._database.rows("SELECT count(*) FROM records", ()) == [(0,)]


async def test_the_log_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = path.with_name("shared.db-wal")
    monkeypatch.setattr(database, "_LARGE", 5_000_000)
    with closing(Sqlite(path)) as shared, closing(sqlite3.connect(path, isolation_level=None)) as other:
        await shared.write("a", {"x": "1"}, 60)
        other.execute("BEGIN")
        other.execute("SELECT * FROM records").fetchall()  # as long as somebody reads, the log has to stay
        for number in range(10):
            await shared.put(str(number), VALUE, version=None, ttl=60)
        other.execute("ROLLBACK")
        assert log.stat().st_size > 10_000_000
        monkeypatch.setattr(database, "_HOUSEKEEPING", 0)
        await shared.write("a", {"x": "2"}, 60)
        await shared.write("a", {"x": "3"}, 60)
        assert log.stat().st_size < 1_000_000
        assert await shared.get("9") is not None


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


async def test_a_file_from_before_there_were_jobs_has_room_for_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_STEPS", tables._STEPS[:1])
    with closing(Sqlite(path)) as before:
        version = await before.put("a", VALUE, version=None, ttl=60)
        monkeypatch.undo()
        with closing(Sqlite(path)) as after:
            assert await after.get("a") == (VALUE, version)
            for key in ("first", "second"):
                assert await after.add(key, b"1", queue="s/q", owner="", most=2, most_of_owner=1) == "added"
            assert [job.key for job in (await after.take(["s/q"], most=1, lease=60)).jobs] == ["first"]
        assert await before.put("a", b"2", version=version, ttl=60)  # who has it open goes on


@pytest.mark.parametrize("turn", range(20))
async def test_all_who_make_it_at_once_have_one_file(turn: int, path: Path) -> None:
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


async def test_a_server_that_nobody_listens_to_looks_for_nothing(shared: Sqlite) -> None:
    server = Server("s", shared=shared, secret="s" * 32)
    published = []
    publish = shared.publish

    async def noting(topic: str, message: str) -> None:
        await publish(topic, message)
        published.append(topic)

    shared.publish = noting  # type: ignore[method-assign]  # to see when it is done
    async with server.running():
        server.tool(lambda: "", name="new")
        await until(lambda: published == ["s/changes"])
        assert watchers() == []
        server.resource_updated("data://x", to=lambda who: True)  # who that is, others are asked
        await until(lambda: len(published) == 2)
        assert watchers() == ["mcpkit-sqlite-bus"]
    await until(lambda: watchers() == [])


@pytest.mark.slow
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
