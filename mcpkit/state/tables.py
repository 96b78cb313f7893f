"""What is in the file of a `Sqlite`, and how files of earlier versions become one of this."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Literal

Synchronous = Literal["normal", "full"]
"""Which committed writes survive a loss of power: all but the last seconds, or all."""

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
"""What makes a file of each version from one of the version before, the first from an empty one.

There is no index of what expires when, where it would be written with each change: that is looked for every few seconds
only. A job that is open expires never (NULL).
A step only adds, so that processes of the version before, which are still running, are not disturbed.
"""


_WHAT_IT_IS = (
    "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_user_version, pragma_application_id"
)
"""All of it at once: another process may be making the file."""


class SchemaError(sqlite3.DatabaseError):
    """The file is not one of this version, nor of an earlier one; what it says follows the file's name."""


def prepare(connection: sqlite3.Connection, patience: float, synchronous: Synchronous) -> str:
    """Make a connection ready for use, and the file where it is empty or of an earlier version; return its home.

    Args:
        connection: The connection.
        patience: Seconds for which another process may hold it up.
        synchronous: What of what is written outlives a loss of power; without it the file is whole, too.

    Raises:
        sqlite3.Error: That cannot be done.
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
