"""Queue of jobs in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TypeVar

from .database import Database
from .queue import Added, Job, LeasedJobs, Message, QueueStats, RoundRobin, check_job, server_of
from .sqlite_pubsub import Bulletin, post

T = TypeVar("T")

SMALL = 65_536
"""Bytes of a value that is read in the event loop; a larger one is read in a thread."""


class SqliteQueue:
    """The queue of a `Sqlite` storage.

    Args:
        database: The file.
        bulletin: Its message bus.
        clock: Returns the time in Unix seconds.
    """

    def __init__(self, database: Database, bulletin: Bulletin, clock: Callable[[], float]) -> None:
        self._database = database
        self._bulletin = bulletin
        self._clock = clock
        self._turns = RoundRobin()

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job that may be taken at once, and notify waiting workers."""
        check_job(value)
        server, version = server_of(queue), os.urandom(16).hex()

        def add(connection: sqlite3.Connection) -> Added:
            now = self._clock()
            connection.execute(_REPLACE, (key, now))
            if connection.execute(_HAS, (key,)).fetchone():
                return "exists"
            (of_server,) = connection.execute(_OPEN, (server, max_open)).fetchone()
            if of_server == max_open:
                return "full"
            if owner:
                (of_owner,) = connection.execute(
                    _OPEN_OF_OWNER, (server, owner, max_open_per_owner)
                ).fetchone()
                if of_owner == max_open_per_owner:
                    return "owner_full"
            connection.execute(_ADD, (key, queue, server, owner, version, now, value))
            post(connection, queue, "", now)
            return "added"

        added = await self._step(add)
        if added == "added":
            self._bulletin.wake()
        return added

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        values = (key, self._clock())
        rows = self._database.quick_glance(_LOOK_AT_SMALL, (SMALL, *values))
        if rows is None or (rows and rows[0][1] is None):
            rows = await self._database.rows(_LOOK, values)
        return _job(rows[0]) if rows else None

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
        check_job(value)
        new = os.urandom(16).hex()

        def change(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            time = inf if ttl is not None else None if due is None else now + due
            expires = None if ttl is None else now + ttl
            changed = connection.execute(_CHANGE, (value, new, time, expires, key, version, fence))
            if changed.rowcount == 0:
                return False
            if message is not None:
                post(connection, *message, now)
            if ttl is None and due is not None and due <= 0:
                (queue,) = connection.execute(_QUEUE, (key,)).fetchone()
                post(connection, queue, "", now)
            return True

        if not await self._step(change):
            return None
        self._bulletin.wake()
        return new

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready."""

        def ready(connection: sqlite3.Connection, by: float) -> dict[str, list[int]]:
            return {
                queue: [
                    number for (number,) in connection.execute(_READY, (server_of(queue), queue, by, limit))
                ]
                for queue in self._turns.order(queues)
            }

        def take(connection: sqlite3.Connection) -> LeasedJobs:
            now = self._clock()
            jobs: list[Job] = []
            for number in self._turns.choose(ready(connection, now - ready_for), limit):
                connection.execute(_TAKE, (now + lease, number))
                jobs.append(_job(connection.execute(_TAKEN, (number,)).fetchone()))
            return LeasedJobs(now, jobs)

        def take_if_any(connection: sqlite3.Connection) -> LeasedJobs:
            now = self._clock()
            # To look disturbs nobody, and is all that who finds nothing does.
            return (
                _in_one(connection, take)
                if any(ready(connection, now - ready_for).values())
                else LeasedJobs(now, [])
            )

        return await self._database.run(take_if_any)

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""

        def renew(connection: sqlite3.Connection) -> set[str]:
            now = self._clock()
            return {
                key
                for key, (fence, seconds) in leases.items()
                if connection.execute(_RENEW, (now + seconds, key, fence)).rowcount == 0
            }

        return await self._step(renew)

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        now = self._clock()
        rows = await self._database.rows(_OWNED, (server, owner, now, after, limit))
        return [_job(row) for row in rows]

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        now = self._clock()
        rows = await self._database.rows(_WAITING, (now, server))
        return [
            QueueStats(str(queue), int(str(ready)), int(str(held)), max(0.0, now - float(str(first or now))))
            for queue, ready, held, first in rows
        ]

    async def _step(self, do: Callable[[sqlite3.Connection], T]) -> T:
        return await self._database.run(lambda connection: _in_one(connection, do))


_OPEN = (
    "SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY open_by_owner "
    "WHERE server = ? AND expires IS NULL LIMIT ?)"
)
_OPEN_OF_OWNER = _OPEN.replace("server = ?", "server = ? AND owner = ?")
_REPLACE = "DELETE FROM jobs WHERE key = ? AND expires <= ?"
_HAS = "SELECT 1 FROM jobs WHERE key = ?"
_ADD = (
    "INSERT INTO jobs (key, queue, server, owner, version, fence, due, leased, value) "
    "VALUES (?, ?, ?, ?, ?, 0, ?, 0, ?)"
)
_LOOK = "SELECT key, value, version, fence FROM jobs WHERE key = ? AND (expires IS NULL OR expires > ?)"
_LOOK_AT_SMALL = _LOOK.replace("value", "CASE WHEN length(value) <= ? THEN value END", 1)
_CHANGE = (
    "UPDATE jobs SET value = ?1, version = ?2, leased = CASE WHEN ?3 IS NULL THEN leased ELSE 0 END, "
    "due = coalesce(?3, due), expires = ?4 "
    "WHERE key = ?5 AND version = ?6 AND fence = coalesce(?7, fence) AND expires IS NULL"
)
_QUEUE = "SELECT queue FROM jobs WHERE key = ?"
_READY = (
    "SELECT id FROM jobs INDEXED BY open_by_time WHERE server = ? AND queue = ? AND due <= ? AND expires IS NULL "
    "ORDER BY due, id LIMIT ?"
)
_TAKE = "UPDATE jobs SET fence = fence + 1, due = ?, leased = 1 WHERE id = ?"
_TAKEN = "SELECT key, value, version, fence FROM jobs WHERE id = ?"
_RENEW = "UPDATE jobs SET due = ? WHERE key = ? AND fence = ? AND leased AND expires IS NULL"
_OWNED = (
    "SELECT key, value, version, fence FROM jobs WHERE server = ?1 AND owner = ?2 "
    "AND (expires IS NULL OR expires > ?3) AND (?4 = '' OR id < "
    "(SELECT id FROM jobs WHERE key = ?4 AND (expires IS NULL OR expires > ?3))) ORDER BY id DESC LIMIT ?5"
)
_WAITING = (
    "SELECT queue, sum(due <= ?1), sum(due > ?1), min(due) FROM jobs INDEXED BY open_by_time "
    "WHERE server = ?2 AND expires IS NULL GROUP BY queue"
)


def _in_one(connection: sqlite3.Connection, do: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    result = do(connection)
    connection.execute("COMMIT")
    return result


def _job(row: Sequence[object]) -> Job:
    key, value, version, fence = row
    assert isinstance(value, bytes), "a key must be text"
    assert isinstance(fence, int), "a fence must be an integer"
    return Job(str(key), value, str(version), fence)
