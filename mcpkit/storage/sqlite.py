"""Storage in an SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import get_args
from weakref import finalize

from pydantic_core import from_json, to_json

from .base import NO_FIELDS, QueueStats, StoredValue, Subscription, check_put, check_value, take_tokens
from .jobs_and_heartbeats import Added, Job, LeasedJobs, Message, RoundRobin, server_of
from .sqlite_connections_and_tables import Database, Row, Synchronous, transaction

logger = logging.getLogger(__name__)

_SMALL = 65_536  # bytes of a value that is read in the event loop; a larger one is read in a thread
_ITEMS_BATCH = 16  # values that are read at a time
_CLEAN_UP_BATCH = 1000  # expired rows that are deleted at a time, so few that it does not block others


class Sqlite:
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
        has_local_reads: True, because reads need no request to another process: the server may read a session record
            with each request.

    Raises:
        TypeError: `path` is not a path.
        ValueError: `path` is empty or `:memory:`, or `synchronous` is neither `normal` nor `full`.
    """

    is_persistent = True
    has_local_reads = True

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
        self._clock = clock
        # Without a reference to the storage, which could not be collected otherwise.
        self._database = Database(
            self.path, lambda connection: _delete_expired(connection, clock()), synchronous
        )
        self._bus = MessageBus(self._database)
        self._round_robin = RoundRobin()
        finalize(self, _close, self._bus, self._database)

    @property
    def store_id(self) -> str:
        """Identifier that the file got when it was created; empty while the file cannot be opened."""
        try:
            return self._database.store_id
        except OSError:  # operations that need the file raise it
            return ""

    def close(self) -> None:
        """End all subscriptions and close the file, until the next use. The end of the process does the same."""
        _close(self._bus, self._database)

    def __repr__(self) -> str:
        """Show the file."""
        return f"Sqlite({str(self.path)!r})"

    async def _read_row(self, select: str, values: tuple[object, ...]) -> Row | None:
        """Return the row of a query, read in the event loop if that is fast, and in the thread otherwise."""
        small = select.replace("value", f"CASE WHEN length(value) <= {_SMALL} THEN value END", 1)
        rows = self._database.try_read_now(small, values)
        if rows is None or (rows and None in rows[0]):  # the file is locked, or the value is large
            rows = await self._database.read(select, values)
        return rows[0] if rows else None

    # PubSub

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key`; empty when it is absent or expired."""
        row = await self._read_row(_READ, (key, self._clock()))
        return MappingProxyType(from_json(row[0], cache_strings="none")) if row else NO_FIELDS

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, which expires `ttl` seconds from now."""
        changes = dict(changes)

        def merge(connection: sqlite3.Connection) -> None:
            now = self._clock()
            if not changes:
                update = "UPDATE records SET expires = ? WHERE key = ? AND expires > ?"
                connection.execute(update, (now + ttl, key, now))
                return
            with transaction(connection):
                row = connection.execute(_READ, (key, now)).fetchone()
                before: dict[str, str] = {} if row is None else from_json(row[0])
                merged = {**before, **changes}
                fields = {name: text for name, text in merged.items() if text is not None}
                if fields:
                    connection.execute(
                        "INSERT INTO records (key, fields, expires) VALUES (?, ?, ?) ON CONFLICT (key) "
                        "DO UPDATE SET fields = excluded.fields, expires = excluded.expires",
                        (key, to_json(fields).decode(), now + ttl),
                    )
                else:
                    connection.execute(_ERASE, (key,))

        await self._database.run(merge)

    async def erase(self, key: str) -> None:
        """Remove `key`; nothing happens when it is absent."""
        await self._database.run(lambda connection: connection.execute(_ERASE, (key,)).rowcount)

    async def claim(self, key: str, ttl: float) -> bool:
        """Claim `key` for `ttl` seconds; return True if it was free."""

        def claim(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            insert = (
                "INSERT INTO claims (key, expires) VALUES (?, ?) "
                "ON CONFLICT (key) DO UPDATE SET expires = excluded.expires WHERE claims.expires <= ?"
            )
            return connection.execute(insert, (key, now + ttl, now)).rowcount == 1

        return await self._database.run(claim)

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take `cost` tokens from the bucket `key`; return 0.0, or the seconds to wait."""
        # A bucket is stored as a claim that expires when the bucket is full.

        def calculate(connection: sqlite3.Connection) -> tuple[bool, float, float]:
            row = connection.execute("SELECT expires FROM claims WHERE key = ?", (key,)).fetchone()
            now = self._clock()
            before: float = now if row is None else row[0]
            full_at, wait = take_tokens(before, now, every=every, burst=burst, cost=cost)
            return full_at != before, full_at, wait

        def take(connection: sqlite3.Connection) -> float:
            is_changed, full_at, wait = calculate(connection)
            if is_changed:  # otherwise there is no need to wait for the locks of other processes
                with transaction(connection):
                    _, full_at, wait = calculate(connection)
                    connection.execute(
                        "INSERT INTO claims (key, expires) VALUES (?, ?) ON CONFLICT (key) "
                        "DO UPDATE SET expires = excluded.expires",
                        (key, full_at),
                    )
            return wait

        return await self._database.run(take)

    async def publish(self, topic: str, message: str) -> None:
        """Store `message` for the listeners of `topic` in all processes."""
        await self._database.run(lambda connection: insert_message(connection, topic, message, self._clock()))
        self._bus.wake()

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic`, in a thread that polls the file; return its unsubscriber."""
        return self._bus.subscribe(topic, listener, missed)

    async def listening(self) -> None:
        """Wait until the file can be read. From then on, listeners receive messages."""
        await self._bus.listening()

    # Store

    async def get(self, key: str) -> StoredValue | None:
        """Return the value of `key` with its version; None if it is absent or expired."""
        select = "SELECT value, version FROM stored WHERE key = ? AND expires > ?"
        row = await self._read_row(select, (key, self._clock()))
        return StoredValue(*row) if row else None

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        """Set `key`, if it still has this version; return the new version, or None."""
        check_put(value, ttl)
        new_version = os.urandom(16).hex()

        def put(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            values: tuple[object, ...] = (key, value, new_version, now + ttl, now)
            if version is None:
                statement = (
                    "INSERT INTO stored (key, value, version, expires) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version, "
                    "expires = excluded.expires WHERE stored.expires <= ?"
                )
            else:
                statement = (
                    "UPDATE stored SET value = ?2, version = ?3, expires = ?4 "
                    "WHERE key = ?1 AND version = ?6 AND expires > ?5"
                )
                values = (*values, version)
            return connection.execute(statement, values).rowcount == 1

        return new_version if await self._database.run(put) else None

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove `key`, if it still has this version; return True if it was removed."""

        def delete(connection: sqlite3.Connection) -> bool:
            delete = "DELETE FROM stored WHERE key = ? AND version = ? AND expires > ?"
            return connection.execute(delete, (key, version, self._clock())).rowcount == 1

        return await self._database.run(delete)

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Iterate over the keys that begin with `prefix`, and their values."""
        select = "SELECT value, version, key FROM stored WHERE key >= ? AND expires > ? ORDER BY key LIMIT ?"
        key = prefix
        while True:
            rows = await self._database.read(select, (key, self._clock(), _ITEMS_BATCH))
            for value, version, key in rows:
                if not key.startswith(prefix):
                    return
                yield key, StoredValue(value, version)
            if len(rows) < _ITEMS_BATCH:
                return
            select = select.replace(">=", ">")

    # Queue

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job that may be taken at once, and notify waiting workers."""
        check_value("job", value)
        server, version = server_of(queue), os.urandom(16).hex()

        def add(connection: sqlite3.Connection) -> Added:
            now = self._clock()
            with transaction(connection):
                connection.execute("DELETE FROM jobs WHERE key = ? AND expires <= ?", (key, now))
                if connection.execute("SELECT 1 FROM jobs WHERE key = ?", (key,)).fetchone():
                    return "exists"
                (count,) = connection.execute(_COUNT_OPEN, (server, max_open)).fetchone()
                if count == max_open:
                    return "full"
                if owner:
                    values = (server, owner, max_open_per_owner)
                    (count,) = connection.execute(_COUNT_OPEN_OF_OWNER, values).fetchone()
                    if count == max_open_per_owner:
                        return "owner_full"
                insert = (
                    "INSERT INTO jobs (key, queue, server, owner, version, fence, due, leased, value) "
                    "VALUES (?, ?, ?, ?, ?, 0, ?, 0, ?)"
                )
                connection.execute(insert, (key, queue, server, owner, version, now, value))
                insert_message(connection, queue, "", now)
                return "added"

        added = await self._database.run(add)
        if added == "added":
            self._bus.wake()
        return added

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        select = (
            "SELECT key, value, version, fence FROM jobs WHERE key = ? AND (expires IS NULL OR expires > ?)"
        )
        row = await self._read_row(select, (key, self._clock()))
        return Job(*row) if row else None

    async def change(
        self,
        key: str,
        value: bytes,
        *,
        version: str,
        fence: int | None = None,
        due: float | None = None,
        ttl: float | None = None,
        message: Message | None = None,
    ) -> str | None:
        """Replace the value of a job, if version and fencing token still match; return the new version, or None."""
        check_value("job", value)
        new_version = os.urandom(16).hex()

        def change(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            new_due = inf if ttl is not None else None if due is None else now + due
            expires = None if ttl is None else now + ttl
            update = (
                "UPDATE jobs SET value = ?1, version = ?2, leased = CASE WHEN ?3 IS NULL THEN leased ELSE 0 END, "
                "due = coalesce(?3, due), expires = ?4 "
                "WHERE key = ?5 AND version = ?6 AND fence = coalesce(?7, fence) AND expires IS NULL"
            )
            with transaction(connection):
                values = (value, new_version, new_due, expires, key, version, fence)
                if connection.execute(update, values).rowcount == 0:
                    return False
                if message is not None:
                    insert_message(connection, *message, now)
                if ttl is None and due is not None and due <= 0:
                    (queue,) = connection.execute("SELECT queue FROM jobs WHERE key = ?", (key,)).fetchone()
                    insert_message(connection, queue, "", now)
                return True

        if not await self._database.run(change):
            return None
        self._bus.wake()
        return new_version

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready."""

        def ready(connection: sqlite3.Connection, now: float) -> dict[str, list[int]]:
            select = (
                "SELECT id FROM jobs INDEXED BY open_by_time "
                "WHERE server = ? AND queue = ? AND due <= ? AND expires IS NULL ORDER BY due, id LIMIT ?"
            )
            found: dict[str, list[int]] = {}
            for queue in self._round_robin.order(queues):
                rows = connection.execute(select, (server_of(queue), queue, now - ready_for, limit))
                found[queue] = [number for (number,) in rows]
            return found

        def take(connection: sqlite3.Connection) -> LeasedJobs:
            now = self._clock()
            jobs: list[Job] = []
            if not any(ready(connection, now).values()):  # workers that poll do not lock the file
                return LeasedJobs(now, jobs)
            with transaction(connection):
                now = self._clock()
                for number in self._round_robin.choose(ready(connection, now), limit):
                    update = "UPDATE jobs SET fence = fence + 1, due = ?, leased = 1 WHERE id = ?"
                    connection.execute(update, (now + lease, number))
                    select = "SELECT key, value, version, fence FROM jobs WHERE id = ?"
                    jobs.append(Job(*connection.execute(select, (number,)).fetchone()))
                return LeasedJobs(now, jobs)

        return await self._database.run(take)

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""

        def renew(connection: sqlite3.Connection) -> set[str]:
            now = self._clock()
            update = "UPDATE jobs SET due = ? WHERE key = ? AND fence = ? AND leased AND expires IS NULL"
            with transaction(connection):
                rows = {key: (now + seconds, key, fence) for key, (fence, seconds) in leases.items()}
                return {key for key, row in rows.items() if connection.execute(update, row).rowcount == 0}

        return await self._database.run(renew)

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        select = (
            "SELECT key, value, version, fence FROM jobs WHERE server = ?1 AND owner = ?2 "
            "AND (expires IS NULL OR expires > ?3) AND (?4 = '' OR id < "
            "(SELECT id FROM jobs WHERE key = ?4 AND (expires IS NULL OR expires > ?3))) ORDER BY id DESC LIMIT ?5"
        )
        rows = await self._database.read(select, (server, owner, self._clock(), after, limit))
        return [Job(*row) for row in rows]

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        now = self._clock()
        select = (
            "SELECT queue, sum(due <= ?1), sum(due > ?1), max(0.0, ?1 - min(due)) "
            "FROM jobs INDEXED BY open_by_time WHERE server = ?2 AND expires IS NULL GROUP BY queue"
        )
        return [QueueStats(*row) for row in await self._database.read(select, (now, server))]


def _close(bus: MessageBus, database: Database) -> None:
    bus.close()
    database.close()


_READ = "SELECT fields FROM records WHERE key = ? AND expires > ?"
_ERASE = "DELETE FROM records WHERE key = ?"
_COUNT_OPEN = (
    "SELECT count(*) FROM "
    "(SELECT 1 FROM jobs INDEXED BY open_by_owner WHERE server = ? AND expires IS NULL LIMIT ?)"
)
_COUNT_OPEN_OF_OWNER = _COUNT_OPEN.replace("server = ?", "server = ? AND owner = ?")


def _delete_expired(connection: sqlite3.Connection, now: float) -> bool:
    """Delete a batch of expired rows and old messages; return True if there may be more."""
    is_more = False
    for table in ("records", "claims", "stored", "jobs"):
        select = f"SELECT key FROM {table} WHERE expires <= ? LIMIT ?"
        keys = connection.execute(select, (now, _CLEAN_UP_BATCH)).fetchall()
        is_more = is_more or len(keys) == _CLEAN_UP_BATCH
        if keys:
            with transaction(connection):
                delete = f"DELETE FROM {table} WHERE key = ? AND expires <= ?"
                connection.executemany(delete, [(*key, now) for key in keys])
    # By id, because another process may have another clock: no message in the middle must be missing.
    select = "SELECT max(id) FROM messages WHERE published <= ?"
    (last,) = connection.execute(select, (now - _MAX_AGE,)).fetchone()
    if last is not None:
        connection.execute("DELETE FROM messages WHERE id <= ?", (last,))
    return is_more


# Message bus

_INTERVAL = 0.1  # seconds between two polls
_RETRY_INTERVAL = 1.0  # seconds between two polls while the file cannot be read
_MESSAGE_BATCH = 64  # messages that are read at a time
_MAX_MESSAGES = 10_000  # messages that are kept for processes that have not read them
_MAX_AGE = 30.0  # seconds for which messages are kept

# Selects the identifier of the file, the number of its last message, and some messages, in one snapshot.
_POLL = (
    "SELECT about.value, coalesce(seq, 0), id, topic, message FROM about "
    "LEFT JOIN sqlite_sequence ON sqlite_sequence.name = 'messages' "
    "LEFT JOIN (SELECT id, topic, message FROM messages WHERE id > ? ORDER BY id LIMIT ?) "
    "WHERE about.name = 'home' ORDER BY id"
)


class MessageBus:
    """Message bus in an SQLite file.

    A thread polls the file while there are subscriptions. Messages have consecutive numbers. If a number is missing, or
    another file has replaced the one that was read, listeners are notified that they missed messages.

    Args:
        database: The file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()  # reentrant: the garbage collector may end a subscription anywhere
        # Each with the number of the last message that is not for it; None while the file cannot be read.
        self._subscriptions: dict[Subscription, int | None] = {}
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._delivered = 0  # number of the last delivered message
        self._store_id = ""  # of the file with that message; empty until it has been read

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic` from now on; return a function that ends it."""
        if self._process != os.getpid():
            self._reset()  # in a forked child, which has no thread, and whose subscriptions are the parent's
        process, subscription = self._process, Subscription(topic, listener, missed)
        store_id: str = ""
        latest: int | None = None
        with suppress(OSError):  # then the subscription begins when the file can be read
            store_id, latest, *_ = self._database.read_now(_POLL, (0, 0))[0]
        with self._lock:
            if not self._subscriptions:
                self._delivered, self._store_id = latest or 0, store_id
            self._subscriptions[subscription] = latest
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mcpkit-sqlite-bus", daemon=True)
                self._thread.start()

        def unsubscribe() -> None:
            if process == os.getpid():
                with self._lock:
                    self._subscriptions.pop(subscription, None)
                    if not self._subscriptions:
                        self._wake.set()

        return unsubscribe

    async def listening(self) -> None:
        """Wait until the file can be read. From then on, all listeners receive messages.

        Raises:
            OSError: The file cannot be read.
        """
        ((store_id, latest, *_),) = await self._database.read(_POLL, (0, 0))
        with self._lock:
            if not self._store_id:
                self._store_id, self._delivered = store_id, latest
            for each, after in self._subscriptions.items():
                if after is None:
                    self._subscriptions[each] = latest

    def wake(self) -> None:
        """Poll at once, because this process has published a message."""
        self._wake.set()

    def close(self) -> None:
        """End all subscriptions, and wait for the thread, which might open the file again otherwise."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._subscriptions.clear()
            self._wake.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_RETRY_INTERVAL)

    def _run(self) -> None:
        is_failing = False
        while True:
            with self._lock:
                if not self._subscriptions:
                    self._thread = None
                    return
            try:
                while self._poll():
                    pass
                is_failing = False
            except OSError:
                if not is_failing:
                    logger.exception(
                        "the shared store cannot be read: messages of other processes arrive late until "
                        "it answers again"
                    )
                is_failing = True
            self._wake.wait(_RETRY_INTERVAL if is_failing else _INTERVAL)
            self._wake.clear()

    def _poll(self) -> bool:
        """Deliver the messages since the last poll; return True if there may be more."""
        self._database.follow_replacement()
        known_id, delivered = self._store_id, self._delivered
        rows = self._database.read_now(_POLL, (delivered, _MESSAGE_BATCH))
        store_id, latest, *_ = rows[0]
        if store_id != known_id or latest < delivered:  # another file, a restored one, or the first
            with self._lock:
                if self._store_id != known_id:
                    return True  # `listening` has read the file meanwhile
                self._store_id = store_id
                # In a file that replaces another one, all messages are new. In a restored one, none is.
                self._delivered = 0 if known_id and store_id != known_id else latest
                with_gap = tuple(self._subscriptions)
                for each in with_gap:
                    self._subscriptions[each] = self._delivered
            for each in with_gap:
                each.notify_gap()
            return True
        messages = [row[2:] for row in rows if row[2] is not None]
        first = messages[0][0] if messages else latest + 1
        with self._lock:
            known = self._subscriptions.items()
            with_gap = tuple(
                each for each, after in known if after is None or max(delivered, after) + 1 < first
            )
            for each in with_gap:
                self._subscriptions[each] = first - 1
            self._delivered = first - 1
        for each in with_gap:
            each.notify_gap()
        for number, topic, text in messages:
            self._delivered = number
            for each, after in tuple(self._subscriptions.items()):
                if each.topic == topic and after is not None and after < number:
                    each.deliver(text)
        return len(messages) == _MESSAGE_BATCH


def insert_message(connection: sqlite3.Connection, topic: str, message: str, now: float) -> None:
    """Publish in the current transaction. `MessageBus.wake` polls at once for listeners of this process."""
    insert = "INSERT INTO messages (topic, message, published) VALUES (?, ?, ?)"
    number = connection.execute(insert, (topic, message, now)).lastrowid or 0
    if number % (_MAX_MESSAGES // 10) == 0:
        connection.execute("DELETE FROM messages WHERE id <= ?", (number - _MAX_MESSAGES,))
