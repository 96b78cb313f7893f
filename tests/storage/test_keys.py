"""Keys derived from the secret: signatures, encryption, rotation, refused secrets, and encrypted records."""

import asyncio
import hmac
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.storage import Memory, Sqlite
from mcpkit.storage import encryption_keys as keys
from mcpkit.storage.encryption_keys import (
    EncryptedRecords,
    Keys,
    NewerRecordError,
    UnreadableRecordError,
    log_unreadable_records,
)
from tests.helpers.waiting import until

OLD = "the old secret of the station"
NEW = "the new secret of the station"


@pytest.fixture(autouse=True)
def no_secret_in_environment(monkeypatch):
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)


def derived(label: bytes) -> bytes:
    return hmac.digest(NEW.encode(), label, "sha256")


def test_signature_is_stable_across_releases_and_verified():
    mac = Keys(NEW, "weather").sign("session", b"data")
    assert mac == hmac.digest(derived(b"mcpkit\0session\0weather"), b"data", "sha256")
    assert Keys(NEW.encode(), "weather").verify("session", b"data", mac)


def test_encryption_is_stable_across_releases():
    packed = bytes(12) + AESGCM(derived(b"mcpkit AES-256-GCM\0state\0weather")).encrypt(
        bytes(12), b"data", None
    )
    assert Keys(NEW, "weather").decrypt("state", packed) == b"data"
    with_signing_key = AESGCM(derived(b"mcpkit\0state\0weather")).encrypt(bytes(12), b"data", None)
    assert Keys(NEW, "weather").decrypt("state", bytes(12) + with_signing_key) is None


@given(st.binary(max_size=200), st.integers(0, 223))
def test_one_changed_bit_is_refused(data, bit):
    keys = Keys(NEW, "weather")
    mac, packed = keys.sign("session", data), keys.encrypt("session", data)
    assert keys.decrypt("session", packed) == data
    assert len(packed) == len(data) + 28
    assert packed != keys.encrypt("session", data)
    flipped = [bytearray(each) for each in (mac, packed)]
    for each in flipped:
        each[bit // 8] ^= 1 << bit % 8
    assert not keys.verify("session", data, bytes(flipped[0]))
    assert keys.decrypt("session", bytes(flipped[1])) is None


@pytest.mark.parametrize(("purpose", "secret", "name"), [
    ("state", NEW, "weather"),
    ("session", OLD, "weather"),
    ("session", NEW, "climate"),
    ("session", [OLD, OLD + "!"], "weather"),
])  # fmt: skip
def test_another_purpose_secret_or_server_is_refused(purpose, secret, name):
    keys, other = Keys(NEW, "weather"), Keys(secret, name)
    assert not other.verify(purpose, b"data", keys.sign("session", b"data"))
    assert not keys.verify("session", b"date", keys.sign("session", b"data"))
    assert other.decrypt(purpose, keys.encrypt("session", b"data")) is None


def test_earlier_secrets_of_the_list_are_accepted():
    old, both, new = Keys(OLD, "weather"), Keys([NEW, OLD], "weather"), Keys(NEW, "weather")
    mac, packed = old.sign("state", b"data"), old.encrypt("state", b"data")
    assert both.verify("state", b"data", mac)
    assert not new.verify("state", b"data", mac)
    assert both.sign("state", b"data") == new.sign("state", b"data")
    assert both.decrypt("state", packed) == b"data"
    assert new.decrypt("state", packed) is None
    assert new.decrypt("state", both.encrypt("state", b"data")) == b"data"


def test_secret_is_read_from_environment(monkeypatch):
    monkeypatch.setenv("MCPKIT_SECRET", NEW)
    assert Keys(None, "weather").sign("session", b"") == Keys(NEW, "weather").sign("session", b"")


@pytest.mark.parametrize("secret", ["", b"hunter2hunter2", [NEW, "hunter2hunter2"], []])
def test_short_secret_is_refused(secret):
    with pytest.raises(ValueError, match=r"^secret_key= .*secrets\.token_urlsafe\(32\)") as error:
        Keys(secret, "weather")
    assert "hunter2" not in "".join(traceback.format_exception_only(error.value))


def test_repr_hides_the_secret():
    keys = Keys([NEW, OLD], "weather")
    assert keys.sign("session", b"")
    assert repr(keys) == "Keys('weather')"
    assert not hasattr(keys, "__dict__")


# Encrypted records

RECORD = {"subject": "ada", "scopes": ["notes:read"], "ä": None}


@pytest.fixture
def store() -> Memory:
    return Memory()


def sealed_with(store: Any, *secrets: str, name: str = "notes", prefix: str = "grants") -> EncryptedRecords:
    return EncryptedRecords(store, Keys(secrets, name), prefix)


async def stored_values(store: Memory) -> dict[str, Any]:
    return {key: stored async for key, stored in store.items("")}


async def test_put_stores_no_plain_text(store: Memory) -> None:
    await sealed_with(store, NEW).put("a", RECORD, version=None, ttl=60)
    ((key, stored),) = (await stored_values(store)).items()
    assert key == "notes/sealed/grants/a"
    assert b"ada" not in stored.value
    assert b"subject" not in stored.value


@pytest.mark.parametrize(
    ("place", "change", "reader", "key"),
    [
        ("notes/sealed/grants/b", None, {}, "b"),
        ("notes/sealed/clients/a", None, {"prefix": "clients"}, "a"),
        ("other/sealed/grants/a", None, {"name": "other"}, "a"), (None, None, {"secret": OLD}, "a"),
        (None, lambda value: value[:-1] + bytes([value[-1] ^ 1]), {}, "a"),
        (None, lambda value: value[:9] + b"\x7f" + value[10:], {}, "a"),
        (None, lambda value: value[:12], {}, "a"), (None, lambda value: b"", {}, "a"),
    ],
    ids=["key", "prefix", "server", "secret", "bit", "expiry", "cut", "empty"],
)  # fmt: skip
async def test_get_of_a_record_that_does_not_decrypt_fails_and_keeps_it(store, place, change, reader, key):
    await sealed_with(store, NEW).put("a", RECORD, version=None, ttl=60)
    ((own, stored),) = (await stored_values(store)).items()
    value = change(stored.value) if change else stored.value
    await store.put(place or own, value, version=None if place else stored.version, ttl=60)
    before = await stored_values(store)
    records = sealed_with(store, reader.pop("secret", NEW), **reader)
    with pytest.raises(UnreadableRecordError, match="cannot be decrypted with the given secrets") as error:
        await records.get(key)
    assert not isinstance(error.value, NewerRecordError)
    assert await stored_values(store) == before


async def test_get_encrypts_the_record_with_the_newest_secret(store: Memory, caplog) -> None:
    first = await sealed_with(store, OLD).put("a", RECORD, version=None, ttl=60)
    both, new = sealed_with(store, NEW, OLD), sealed_with(store, NEW)
    found = await both.get("a")
    assert found is not None
    assert found[0] == RECORD
    assert found[1] != first
    assert await both.get("a") == await new.get("a") == found
    await log_unreadable_records(store, Keys([NEW], "notes"))
    assert "cannot decrypt" not in caplog.text


async def test_get_of_a_later_format_fails_and_keeps_the_record(store: Memory, monkeypatch, caplog) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(keys, "_FORMAT", 2)
        await sealed_with(store, NEW).put("a", RECORD, version=None, ttl=60)
    before = await stored_values(store)
    message = r"'notes/sealed/grants/a' was written by a later version.*Update mcpkit"
    with pytest.raises(NewerRecordError, match=message):
        await sealed_with(store, NEW, OLD).get("a")
    assert await sealed_with(store, NEW).put("a", {}, version=None, ttl=60) is None
    await log_unreadable_records(store, Keys([NEW], "notes"))
    assert "cannot decrypt" not in caplog.text
    assert await stored_values(store) == before


async def test_server_start_logs_unreadable_records_once(tmp_path: Path, caplog, monkeypatch) -> None:
    shared = Sqlite(tmp_path / "notes.db")
    for number in range(3):
        await sealed_with(shared, OLD).put(str(number), RECORD, version=None, ttl=60)
    with monkeypatch.context() as patch:
        patch.setattr(keys, "_FORMAT", 2)
        await sealed_with(shared, NEW, prefix="clients").put("a", RECORD, version=None, ttl=60)
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
