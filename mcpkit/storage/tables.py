"""Schema of the file of a `Sqlite` storage, and its migrations."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Literal

Synchronous = Literal["normal", "full"]
"""Committed writes that survive a power failure: `normal` for all but the last seconds, `full` for all."""

_PROGRAM = 0x6D63706B
"""The application id in the file header: "mcpk"."""

_STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE records (key TEXT PRIMARY KEY, fields TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID",
        "CREATE TABLE claims (key TEXT PRIMARY KEY, expires REAL NOT NULL) WITHOUT ROWID",
        "CREATE TABLE stored (key TEXT PRIMARY KEY, version TEXT NOT NULL, expires REAL NOT NULL, value BLOB NOT NULL)",
        (
            "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, "
            "message TEXT NOT NULL, published REAL NOT NULL)"
        ),
    ),
    (
        (
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, queue TEXT NOT NULL, "
            "server TEXT NOT NULL, owner TEXT NOT NULL, version TEXT NOT NULL, fence INTEGER NOT NULL, "
            "due REAL NOT NULL, leased INTEGER NOT NULL, expires REAL, value BLOB NOT NULL)"
        ),
        "CREATE INDEX open_by_time ON jobs (server, queue, due, id) WHERE expires IS NULL",
        "CREATE INDEX open_by_owner ON jobs (server, owner) WHERE expires IS NULL",
        "CREATE INDEX by_owner ON jobs (server, owner, id)",
        "CREATE INDEX ended ON jobs (expires) WHERE expires IS NOT NULL",
    ),
)
"""Statements that migrate a file from each version to the next, the first one from an empty file.

There is no index on the expiry in tables where each change would update it: expired rows are searched every few seconds
only. An open job has no expiry (NULL). A migration only adds, so that running processes of the previous version are not
affected.
"""


_WHAT_IT_IS = (
    "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_user_version, pragma_application_id"
)
"""Selects all facts in one snapshot, because another process may be creating the file."""


class SchemaError(sqlite3.DatabaseError):
    """The file is not of this version or an earlier one; the text follows the name of the file."""


def prepare(connection: sqlite3.Connection, patience: float, synchronous: Synchronous) -> str:
    """Configure a connection, and create or migrate the tables; return the identifier of the file.

    Args:
        connection: The connection.
        patience: Seconds to wait for a lock of another process.
        synchronous: See `Synchronous`; the file stays consistent with either value.

    Raises:
        sqlite3.Error: SQLite fails.
        SchemaError: The file is of a later version, or of another program.
    """
    version = _version(connection)
    deadline = time.monotonic() + patience
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError:  # another process makes the file; SQLite does not wait for that
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            if mode != "wal":
                raise SchemaError(
                    "is on a file system that does not support SQLite's write-ahead log, such as a "
                    "network file system. Use a file on a local disk"
                )
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA journal_size_limit = 16777216")  # bytes that the log keeps when it begins anew
    if version < len(_STEPS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for step in _STEPS[_version(connection) :]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(_STEPS)}")
            connection.execute(f"PRAGMA application_id = {_PROGRAM}")
            connection.execute("INSERT OR IGNORE INTO about VALUES ('home', ?)", (os.urandom(16).hex(),))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    (home,) = connection.execute("SELECT value FROM about WHERE name = 'home'").fetchone()
    return str(home)


def _version(connection: sqlite3.Connection) -> int:
    version, program, tables = connection.execute(_WHAT_IT_IS).fetchone()
    if program != _PROGRAM and (tables or program or version):
        raise SchemaError("is the database of another program. Use another file")
    if version > len(_STEPS):
        raise SchemaError(
            f"was written by a later version of mcpkit (format {version}; this version supports up to "
            f"{len(_STEPS)}). Update mcpkit, or use another file"
        )
    return int(version)
