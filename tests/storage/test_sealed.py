"""Encrypted records: rotation of secrets, format versions, and warnings about records that cannot be decrypted."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.state import sealed
from mcpkit.state.keys import Keys
from mcpkit.state.sealed import NewerRecordError, Sealed, UnreadableRecordError
from mcpkit.storage import Memory, Sqlite
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

OLD = "the old secret of the notes"

NEW = "the new secret of the notes"

RECORD = {"subject": "ada", "scopes": ["notes:read"], "ä": None}


@pytest.fixture
def store() -> Memory:
    return Memory()


def sealed_with(store: Any, *secrets: str, name: str = "notes", prefix: str = "grants") -> Sealed:
    return Sealed(store, Keys(secrets, name), prefix)


async def stored_values(store: Memory) -> dict[str, Any]:
    return {key: stored async for key, stored in store.items("")}


async def test_put_stores_no_plain_text(store: Memory) -> None:
    await sealed_with(store, NEW).put("a", {"subject": "ada lovelace"}, version=None, ttl=60)
    ((key, stored),) = (await stored_values(store)).items()
    assert key == "notes/sealed/grants/a"
    assert b"ada" not in stored.value
    assert b"subject" not in stored.value


@pytest.mark.parametrize("name", ["key", "prefix", "server", "secret", "bit", "expiry", "cut", "empty"])
async def test_get_of_a_record_that_does_not_decrypt_fails_and_keeps_it(store: Memory, name: str) -> None:
    records = sealed_with(store, NEW)
    await records.put("a", RECORD, version=None, ttl=60)
    ((place, stored),) = (await stored_values(store)).items()
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
        "secret": sealed_with(store, OLD),
        "prefix": sealed_with(store, NEW, prefix="clients"),
        "server": sealed_with(store, NEW, name="other"),
    }.get(name, records)
    before = await stored_values(store)
    with pytest.raises(UnreadableRecordError, match="cannot be decrypted with the given secrets") as error:
        await reader.get("b" if name == "key" else "a")
    assert not isinstance(error.value, NewerRecordError)
    assert await stored_values(store) == before


# Rotation


async def test_get_encrypts_the_record_with_the_newest_secret(store: Memory) -> None:
    first = await sealed_with(store, OLD).put("a", RECORD, version=None, ttl=60)
    both = sealed_with(store, NEW, OLD)
    found = await both.get("a")
    assert found is not None
    assert found[0] == RECORD
    assert found[1] != first
    assert await both.get("a") == found
    assert await sealed_with(store, NEW).get("a") == found
    assert await sealed_with(store, NEW).unreadable() == 0


# Formats


async def test_get_of_a_later_format_fails_and_keeps_the_record(
    store: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "_FORMAT", 2)
    await sealed_with(store, NEW).put("a", RECORD, version=None, ttl=60)
    monkeypatch.undo()
    before = await stored_values(store)
    with pytest.raises(
        NewerRecordError, match=r"'notes/sealed/grants/a' was written by a later version.*Update mcpkit"
    ):
        await sealed_with(store, NEW, OLD).get("a")
    assert await sealed_with(store, NEW).put("a", {}, version=None, ttl=60) is None
    assert await sealed_with(store, NEW).unreadable() == 0
    assert await stored_values(store) == before


# Start-up


async def test_server_start_logs_unreadable_records_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Sqlite(tmp_path / "notes.db")
    for number in range(3):
        await sealed_with(shared, OLD).put(str(number), RECORD, version=None, ttl=60)
    monkeypatch.setattr(sealed, "_FORMAT", 2)
    await sealed_with(shared, NEW, prefix="clients").put("a", RECORD, version=None, ttl=60)
    monkeypatch.undo()
    servers = [Server("notes", storage=Sqlite(tmp_path / "notes.db"), secret_key=NEW) for _ in range(2)]
    with caplog.at_level(logging.WARNING, "mcpkit"):
        async with servers[0].running(), servers[1].running(), servers[1].running():
            await until(lambda: len(caplog.records) == 2)
            await asyncio.gather(*(each.storage.get("a") for each in servers))
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "cannot decrypt 3 records of Sqlite(" in caplog.text
    assert "Server(secret_key=[new, old])" in caplog.text
    assert "1 records of Sqlite(" in caplog.text
    assert "later version of mcpkit" in caplog.text
    assert OLD not in caplog.text
