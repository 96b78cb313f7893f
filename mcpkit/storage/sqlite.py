"""Storage in an SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import get_args
from weakref import finalize

from pydantic_core import from_json, to_json

from .base import StoredValue, check_put, take_tokens
from .database import Database
from .sqlite_pubsub import Bulletin, post, trim
from .sqlite_queue import SMALL, SqliteQueue
from .tables import Synchronous

_NOTHING: Mapping[str, str] = MappingProxyType({})

_AT_A_TIME = 16

_TIDIED_AT_A_TIME = 1000


class Sqlite(SqliteQueue):
    """Storage in an SQLite file, shared by the processes of one machine.

    For example `Server(storage=Sqlite("notes.db"), secret_key=...)`. Sessions, states, claims, messages, tasks and the
    values of `ctx.storage` are in one file, which outlives the processes. Other processes receive a message after 0.1
    seconds. Expiry uses the clock of the machine.

    The file is opened on first use. If it is locked, damaged or not writable, operations that need it fail and the
    reason is logged. They work again as soon as the file does. A forked process opens the file anew.

    Args:
        path: The file. A new file is readable for its owner only. The files with the suffixes `-wal` and `-shm` belong
            to it. The file must be on a local disk. On a network file system, the first use raises an OSError.
        synchronous: `full` waits for the disk with each change, so that no change is lost on a power failure. With
            `normal`, a power failure may lose the changes of the last seconds. In both modes a committed change
            survives the end of any process. The setting applies to the changes of this process.
        clock: Returns the time in Unix seconds.

    Attributes:
        path: Absolute path of the file.

    Raises:
        TypeError: `path` is not a path.
        ValueError: `path` is empty or `:memory:`, or `synchronous` is neither `normal` nor `full`.
    """

    is_persistent = True
    has_local_reads = True
    """Reads need no request to another process, so the server may read a session record with each request."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "normal",
        clock: Callable[[], float] = time.time,
    ) -> None:
        name = os.fspath(path)
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"path must be a string or a Path, got {path!r}")
        if name in {"", ":memory:"}:
            raise ValueError(
                f"Sqlite({name!r}) names no file that other processes can open. Name a file, or use Memory()"
            )
        if synchronous not in get_args(Synchronous):
            raise ValueError(f"synchronous must be 'normal' or 'full', got {synchronous!r}")
        self.path = Path(name).absolute()
        database = Database(self.path, partial(_tidy, clock), synchronous)
        bulletin = Bulletin(database)
        super().__init__(database, bulletin, clock)
        finalize(self, _close, bulletin, database)

    @property
    def store_id(self) -> str:
        """Identifier that the file got when it was created; empty while the file cannot be opened."""
        try:
            return self._database.store_id
        except OSError:  # who wants to keep something is told
            return ""

    def close(self) -> None:
        """End all subscriptions and close the file, until the next use. The end of the process does the same."""
        _close(self._bulletin, self._database)

    def __repr__(self) -> str:
        """Show the file."""
        return f"Sqlite({str(self.path)!r})"

    # PubSub

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key`; empty when it is absent or expired."""
        values = (key, self._clock())
        rows = self._database.quick_glance(_READ, values)
        if rows is None:
            rows = await self._database.rows(_READ, values)
        return MappingProxyType(from_json(str(rows[0][0]), cache_strings="none")) if rows else _NOTHING

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, which expires `ttl` seconds from now."""
        changes = dict(changes)
        await self._database.run(lambda connection: _merge(connection, key, changes, self._clock(), ttl))

    async def erase(self, key: str) -> None:
        """Remove `key`; nothing happens when it is absent."""
        await self._database.run(lambda connection: connection.execute(_ERASE, (key,)).rowcount)

    async def claim(self, key: str, ttl: float) -> bool:
        """Claim `key` for `ttl` seconds; return True if it was free."""

        def take(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            return connection.execute(_CLAIM, (key, now + ttl, now)).rowcount == 1

        return await self._database.run(take)

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take `cost` tokens from the bucket `key`; return 0.0, or the seconds to wait."""

        def take(connection: sqlite3.Connection) -> float:
            def look() -> tuple[bool, float, float]:
                row, now = connection.execute(_FULL_AT, (key,)).fetchone(), self._clock()
                before = now if row is None else row[0]
                full_at, wait = take_tokens(before, now, every=every, burst=burst, cost=cost)
                return full_at != before, full_at, wait

            is_other, full_at, wait = look()
            if is_other:  # what changes nothing need not wait for other processes
                connection.execute("BEGIN IMMEDIATE")
                _, full_at, wait = look()
                connection.execute(_FILL, (key, full_at))
                connection.execute("COMMIT")
            return wait

        return await self._database.run(take)

    async def publish(self, topic: str, message: str) -> None:
        """Store `message` for the listeners of `topic` in all processes."""
        await self._database.run(lambda connection: post(connection, topic, message, self._clock()))
        self._bulletin.wake()

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic`, in a thread that polls the file; return its unsubscriber."""
        return self._bulletin.subscribe(topic, listener, missed)

    async def listening(self) -> None:
        """Wait until the file can be read. From then on, listeners receive messages."""
        await self._bulletin.listening()

    # Store

    async def get(self, key: str) -> StoredValue | None:
        """Return the value of `key` with its version; None if it is absent or expired."""
        values = (key, self._clock())
        rows = self._database.quick_glance(_GET_SMALL, (SMALL, *values))
        if rows is None or (rows and rows[0][0] is None):
            rows = await self._database.rows(_GET, values)
        return _stored(*rows[0]) if rows else None

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        """Set `key`, if it still has this version; return the new version, or None."""
        check_put(value, ttl)
        new = os.urandom(16).hex()

        def change(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            if version is None:
                done = connection.execute(_PUT_FIRST, (key, value, new, now + ttl, now))
            else:
                done = connection.execute(_PUT, (value, new, now + ttl, key, version, now))
            return done.rowcount == 1

        return new if await self._database.run(change) else None

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove `key`, if it still has this version; return True if it was removed."""

        def remove(connection: sqlite3.Connection) -> bool:
            return connection.execute(_DELETE, (key, version, self._clock())).rowcount == 1

        return await self._database.run(remove)

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Iterate over the keys that begin with `prefix`, and their values."""
        after, sql = prefix, _ITEMS_FROM
        while True:
            values = (after, self._clock(), _AT_A_TIME)
            rows = await self._database.rows(sql, values)
            for key, *stored in rows:
                after, sql = str(key), _ITEMS_AFTER
                if not after.startswith(prefix):
                    return
                yield after, _stored(*stored)
            if len(rows) < _AT_A_TIME:
                return


def _close(bulletin: Bulletin, database: Database) -> None:
    bulletin.close()
    database.close()


# Each of these is a transaction by itself.

_READ = "SELECT fields FROM records WHERE key = ? AND expires > ?"
_ERASE = "DELETE FROM records WHERE key = ?"
_PROLONG = "UPDATE records SET expires = ? WHERE key = ? AND expires > ?"
_WRITE = (
    "INSERT INTO records (key, fields, expires) VALUES (?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET fields = excluded.fields, expires = excluded.expires"
)
_CLAIM = (
    "INSERT INTO claims (key, expires) VALUES (?, ?) "
    "ON CONFLICT (key) DO UPDATE SET expires = excluded.expires WHERE claims.expires <= ?"
)
# A bucket expires like a claim, at the time when it is full.
_FULL_AT = "SELECT expires FROM claims WHERE key = ?"
_FILL = "INSERT INTO claims (key, expires) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET expires = excluded.expires"
_GET_SMALL = (
    "SELECT CASE WHEN length(value) <= ? THEN value END, version FROM stored WHERE key = ? AND expires > ?"
)
_GET = "SELECT value, version FROM stored WHERE key = ? AND expires > ?"
_PUT_FIRST = (
    "INSERT INTO stored (key, value, version, expires) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
    "SET value = excluded.value, version = excluded.version, expires = excluded.expires WHERE stored.expires <= ?"
)
_PUT = "UPDATE stored SET value = ?, version = ?, expires = ? WHERE key = ? AND version = ? AND expires > ?"
_DELETE = "DELETE FROM stored WHERE key = ? AND version = ? AND expires > ?"
_ITEMS_FROM = "SELECT key, value, version FROM stored WHERE key >= ? AND expires > ? ORDER BY key LIMIT ?"
_ITEMS_AFTER = _ITEMS_FROM.replace(">=", ">", 1)


def _merge(
    connection: sqlite3.Connection, key: str, changes: Mapping[str, str | None], now: float, ttl: float
) -> None:
    if not changes:
        connection.execute(_PROLONG, (now + ttl, key, now))
        return
    connection.execute("BEGIN IMMEDIATE")
    row = connection.execute(_READ, (key, now)).fetchone()
    before: dict[str, str] = {} if row is None else from_json(row[0])
    merged = {**before, **changes}
    fields = {name: text for name, text in merged.items() if text is not None}
    if fields:
        connection.execute(_WRITE, (key, to_json(fields).decode(), now + ttl))
    else:
        connection.execute(_ERASE, (key,))
    connection.execute("COMMIT")


def _stored(value: object, version: object) -> StoredValue:
    assert isinstance(value, bytes), "a stored value must be bytes"
    return StoredValue(value, str(version))


def _tidy(clock: Callable[[], float], connection: sqlite3.Connection) -> bool:
    """Remove a batch of expired rows, small enough not to block others; return True if there may be more."""
    now, is_more = clock(), False
    for table in ("records", "claims", "stored", "jobs"):
        found = connection.execute(
            f"SELECT key FROM {table} WHERE expires <= ? LIMIT ?", (now, _TIDIED_AT_A_TIME)
        ).fetchall()
        is_more = is_more or len(found) == _TIDIED_AT_A_TIME
        if found:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                f"DELETE FROM {table} WHERE key = ? AND expires <= ?", [(*key, now) for key in found]
            )
            connection.execute("COMMIT")
    trim(connection, now)
    return is_more
