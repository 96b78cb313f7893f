"""Sealed records: what is kept so that none but who has the secret can read it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Memory, Server, Sqlite
from mcpkit.state import sealed
from mcpkit.state.keys import Keys
from mcpkit.state.sealed import NewerRecordError, Sealed, UnreadableRecordError
from tests.helpers.engines import ENGINES, make_engine
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

OLD = "the old secret of the notes"
NEW = "the new secret of the notes"
RECORD = {"subject": "ada", "scopes": ["notes:read"], "ä": None}


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory | Sqlite]:
    engine = make_engine(request.param, tmp_path)
    yield engine
    if isinstance(engine, Sqlite):
        engine.close()


def under(store: Any, *secrets: str, name: str = "notes", prefix: str = "grants") -> Sealed:
    return Sealed(store, Keys(secrets, name), prefix)


async def raw(store: Memory | Sqlite) -> dict[str, Any]:
    return {key: stored async for key, stored in store.items("")}


async def test_what_was_put_is_got(store: Memory | Sqlite) -> None:
    records = under(store, NEW)
    assert await records.get("a") is None
    version = await records.put("a", RECORD, version=None, ttl=60)
    assert version is not None
    assert await records.get("a") == (RECORD, version)
    assert await records.put("a", {}, version=None, ttl=60) is None
    second = await records.put("a", {"b": 1}, version=version, ttl=60)
    assert await records.put("a", {}, version=version, ttl=60) is None
    assert await records.get("a") == ({"b": 1}, second)
    assert second is not None
    assert not await records.delete("a", version=version)
    assert await records.delete("a", version=second)
    assert await records.get("a") is None


async def test_nothing_of_it_can_be_read_in_the_store(store: Memory | Sqlite) -> None:
    await under(store, NEW).put("a", {"subject": "ada lovelace"}, version=None, ttl=60)
    ((key, stored),) = (await raw(store)).items()
    assert key == "notes/sealed/grants/a"
    assert b"ada" not in stored.value
    assert b"subject" not in stored.value


@pytest.mark.parametrize("name", ["key", "prefix", "server", "secret", "bit", "expiry", "cut", "empty"])
async def test_what_does_not_open_is_an_error_and_stays(store: Memory | Sqlite, name: str) -> None:
    records = under(store, NEW)
    await records.put("a", RECORD, version=None, ttl=60)
    ((place, stored),) = (await raw(store)).items()
    value = stored.value
    if name == "bit":
        value = value[:-1] + bytes([value[-1] ^ 1])
    elif name == "expiry":  # else it could be made to last
        value = value[:9] + b"\x7f" + value[10:]
    elif name in {"cut", "empty"}:
        value = value[:12] if name == "cut" else b""
    elif name == "key":
        place = "notes/sealed/grants/b"
    elif name == "prefix":
        place = "notes/sealed/clients/a"
    elif name == "server":
        place = "other/sealed/grants/a"
    await store.put(
        place, value, version=stored.version if name not in {"key", "prefix", "server"} else None, ttl=60
    )
    reader = {
        "secret": under(store, OLD),
        "prefix": under(store, NEW, prefix="clients"),
        "server": under(store, NEW, name="other"),
    }.get(name, records)
    before = await raw(store)
    with pytest.raises(UnreadableRecordError, match="none of the secrets opens the record") as caught:
        await reader.get("b" if name == "key" else "a")
    assert not isinstance(caught.value, NewerRecordError)
    assert await raw(store) == before


# Another secret


async def test_a_record_is_written_again_under_the_newest_secret(store: Memory | Sqlite) -> None:
    first = await under(store, OLD).put("a", RECORD, version=None, ttl=60)
    both = under(store, NEW, OLD)
    found = await both.get("a")
    assert found is not None
    assert found[0] == RECORD
    assert found[1] != first
    assert await both.get("a") == found
    assert await under(store, NEW).get("a") == found
    assert await under(store, NEW).unreadable() == 0


async def test_it_expires_when_it_would_have(store: Memory | Sqlite, monkeypatch: pytest.MonkeyPatch) -> None:
    await under(store, OLD).put("a", RECORD, version=None, ttl=1000)
    ttls = []
    put = store.put

    async def noting(key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        ttls.append(ttl)
        return await put(key, value, version=version, ttl=ttl)

    monkeypatch.setattr(store, "put", noting)
    await under(store, NEW, OLD).get("a")
    assert 990 < ttls[0] <= 1000


async def test_what_others_write_at_that_moment_is_not_lost(
    store: Memory | Sqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    await under(store, OLD).put("a", RECORD, version=None, ttl=60)
    put, other = store.put, under(store, OLD)

    async def slow(key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        monkeypatch.setattr(store, "put", put)
        found = await other.get("a")
        assert found is not None
        assert await other.put("a", {"n": 2}, version=found[1], ttl=60) is not None
        return await put(key, value, version=version, ttl=ttl)

    monkeypatch.setattr(store, "put", slow)
    found = await under(store, NEW, OLD).get("a")
    assert found is not None
    assert found[0] == {"n": 2}
    assert await under(store, NEW).get("a") == found


async def test_where_it_cannot_be_written_again_it_is_read_all_the_same(
    store: Memory | Sqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await under(store, OLD).put("a", RECORD, version=None, ttl=60)

    async def refuse(*_: object, **__: object) -> None:
        raise PermissionError("it is read-only")

    monkeypatch.setattr(store, "put", refuse)
    assert await under(store, NEW, OLD).get("a") == (RECORD, first)


async def test_of_all_who_read_and_change_at_once_none_loses_a_change(store: Memory | Sqlite) -> None:
    await under(store, OLD).put("a", {"n": []}, version=None, ttl=60)

    async def add(number: int) -> None:
        records = under(store, NEW, OLD) if number % 2 else under(store, OLD, NEW)
        while (found := await records.get("a")) is not None:
            if await records.put("a", {"n": [*found[0]["n"], number]}, version=found[1], ttl=60) is not None:
                return

    await asyncio.gather(*map(add, range(20)))
    found = await under(store, NEW, OLD).get("a")
    assert found is not None
    assert sorted(found[0]["n"]) == list(range(20))


# Another version


async def test_a_record_of_a_later_version_is_left_alone(
    store: Memory | Sqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "_FORMAT", 2)
    await under(store, NEW).put("a", RECORD, version=None, ttl=60)
    monkeypatch.undo()
    before = await raw(store)
    with pytest.raises(
        NewerRecordError, match=r"'notes/sealed/grants/a' was written by a later version.*update mcpkit"
    ):
        await under(store, NEW, OLD).get("a")
    assert await under(store, NEW).put("a", {}, version=None, ttl=60) is None
    assert await under(store, NEW).unreadable() == 0
    assert await raw(store) == before


async def test_a_record_of_the_version_before_is_read_and_written_again(
    store: Memory | Sqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    await under(store, NEW).put("a", RECORD, version=None, ttl=60)
    monkeypatch.setattr(sealed, "_FORMAT", 2)
    found = await under(store, NEW).get("a")
    assert found is not None
    assert found[0] == RECORD
    assert (await raw(store))["notes/sealed/grants/a"].value[0] == 2
    assert await under(store, NEW).get("a") == found


# What is said at the start


async def test_what_cannot_be_read_is_counted(store: Memory | Sqlite) -> None:
    for number in range(40):
        await under(store, OLD if number % 4 else NEW).put(str(number), RECORD, version=None, ttl=60)
    await under(store, OLD, name="other").put("a", RECORD, version=None, ttl=60)
    await under(store, OLD, prefix="grants/of/others").put("a", RECORD, version=None, ttl=60)
    await under(store, OLD, prefix="clients").put("a", RECORD, version=None, ttl=60)
    assert await under(store, NEW).unreadable() == 31
    assert await under(store, NEW, OLD).unreadable() == 0
    assert await under(store, NEW, prefix="clients").unreadable() == 1


async def test_it_is_said_once_when_servers_begin_to_serve(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Sqlite(tmp_path / "notes.db")
    for number in range(3):
        await under(shared, OLD).put(str(number), RECORD, version=None, ttl=60)
    monkeypatch.setattr(sealed, "_FORMAT", 2)
    await under(shared, NEW, prefix="clients").put("a", RECORD, version=None, ttl=60)
    monkeypatch.undo()
    servers = [Server("notes", shared=Sqlite(tmp_path / "notes.db"), secret=NEW) for _ in range(2)]
    with caplog.at_level(logging.WARNING, "mcpkit"):
        async with servers[0].running(), servers[1].running(), servers[1].running():
            await until(lambda: len(caplog.records) == 2)
            await asyncio.gather(*(each.store.get("a") for each in servers))
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "none of the secrets opens 3 records of Sqlite(" in caplog.text
    assert "Server(secret=[new, old])" in caplog.text
    assert "1 records of Sqlite(" in caplog.text
    assert "later version of mcpkit" in caplog.text
    assert OLD not in caplog.text


async def test_no_more_than_some_are_looked_at_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "_LOOKED_AT", 5)
    for number, said in ((5, " 5 records"), (6, " at least 5 records")):
        shared = Sqlite(tmp_path / f"{number}.db")
        for each in range(number):
            await under(shared, OLD).put(str(each), RECORD, version=None, ttl=60)
        caplog.clear()
        async with Server("notes", shared=shared, secret=NEW).running():
            await until(lambda: caplog.records)
        assert f"none of the secrets opens{said}" in caplog.text


async def test_nothing_is_said_where_all_can_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = Sqlite(tmp_path / "notes.db")
    await under(shared, OLD).put("a", RECORD, version=None, ttl=60)
    looked = asyncio.Event()

    class Watched(Sqlite):
        def items(self, prefix: str) -> Any:
            async def items() -> Any:
                async for each in Sqlite.items(self, prefix):
                    yield each
                looked.set()

            return items()

    async with Server("notes", shared=Watched(tmp_path / "notes.db"), secret=[NEW, OLD]).running():
        await looked.wait()
        await asyncio.sleep(0)
    assert caplog.text == ""


async def test_records_are_found_by_what_their_keys_begin_with(store: Memory | Sqlite) -> None:
    grants = under(store, OLD)
    for key in ("ada-1", "ada-2", "bob-1"):
        await grants.put(key, {"key": key}, version=None, ttl=60)
    await under(store, OLD, prefix="answered").put("ada-3", {}, version=None, ttl=60)
    await under(store, NEW).put("ada-4", {"key": "unreadable"}, version=None, ttl=60)
    found = [record["key"] async for record in under(store, "another secret of them", OLD).items("ada-")]
    assert sorted(found) == ["ada-1", "ada-2"]
