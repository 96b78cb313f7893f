"""Connections of one process to an SQLite file, the schema of the file, and the detection of network file systems."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, TypeVar
from weakref import WeakSet

from .._utils.concurrency import call_in_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")
Row = tuple[Any, ...]

# Committed writes that survive a power failure: `normal` for all but the last seconds, `full` for all
Synchronous = Literal["normal", "full"]

DEFAULT_TIMEOUT = 5.0  # seconds that a write waits for a lock of another process
_READ_TIMEOUT = 0.05  # seconds that a read in an event loop waits for a lock of another process
_CLEAN_UP_INTERVAL = 5.0  # seconds between two deletions of expired rows, if there are writes
_MAX_LOG_SIZE = 67_108_864  # bytes of the write-ahead log above which writers wait for a checkpoint


class _Work(NamedTuple):
    function: Callable[[sqlite3.Connection], object]
    loop: asyncio.AbstractEventLoop
    finish: Callable[[object, BaseException | None], None]  # called in the loop
    deadline: float


class Database:
    """An SQLite file, opened on first use, and again after a failure or after it was replaced.

    It has two connections. One reads, in the thread of the caller: that takes microseconds, because writers do not
    block readers. The other one writes, in a thread of its own that waits for other processes and for the disk. Both
    are closed while the process forks, as SQLite demands, so that a child opens its own connections.

    Failures are raised as OSError with a text that names the remedy.

    Args:
        path: The file. A new file is readable for its owner only.
        clean_up: Deletes expired rows, now and then, on the connection that writes; returns True if there may be more.
        synchronous: Whether a committed write is on the disk.
    """

    def __init__(
        self, path: Path, clean_up: Callable[[sqlite3.Connection], bool], synchronous: Synchronous = "normal"
    ) -> None:
        self.path = path
        self._clean_up = clean_up
        self._synchronous: Synchronous = synchronous
        self._is_access_checked = False
        self.reset()
        _databases.add(self)

    def reset(self) -> None:
        """Discard connections, locks and threads in a forked child."""
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._store_id = ""
        self._reader_file: tuple[int, int] | None = None
        self._writer_file: tuple[int, int] | None = None
        # Reentrant: the garbage collector may close a storage wherever memory is allocated.
        self.read_lock = threading.RLock()
        self.write_lock = threading.RLock()
        self._start_lock = threading.Lock()
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._cleaned_up = 0.0

    # Reading

    @property
    def store_id(self) -> str:
        """Identifier of the file. A file that replaces it has another one.

        Raises:
            OSError: The file has not been opened yet, and cannot be.
        """
        if not self._store_id:
            self.read_now("SELECT 1")
        return self._store_id

    def read_now(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a fast query, in the current thread.

        Raises:
            OSError: The file cannot be read.
        """
        with self.read_lock:
            try:
                reader = self._reader or self._use_reader(self._connect(_READ_TIMEOUT))
                return reader.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                failure = self._failure(error)
                if not isinstance(failure, TimeoutError):
                    self._close_reader()
                raise failure from error

    def try_read_now(self, sql: str, values: Sequence[object]) -> list[Row] | None:
        """Return the rows of a fast query, in the current thread; None if it would block. Then use `read`.

        Raises:
            OSError: The file cannot be read.
        """
        if self._reader is None:
            return None
        try:
            return self.read_now(sql, values)
        except TimeoutError:
            return None

    async def read(self, sql: str, values: Sequence[object]) -> list[Row]:
        """Return the rows of a query, from the thread that writes.

        Raises:
            OSError: The file cannot be read.
        """
        return await self.run(lambda connection: connection.execute(sql, values).fetchall())

    def follow_replacement(self) -> None:
        """Close the connection that reads if another file has replaced the one that is open."""
        with self.read_lock:
            file = self._current_file()
            if self._reader is not None and file is not None and file != self._reader_file:
                self._close_reader()

    # Writing

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on the connection that writes, after earlier calls, and return its result.

        A transaction that the function leaves open by an exception is rolled back.

        Raises:
            OSError: The file cannot be written, or not within a few seconds.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def finish(result: object, error: BaseException | None) -> None:
            if done.done():
                return  # the caller was cancelled, or the time is over
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]  # the result of `function`
            else:
                done.set_exception(error)

        if self._thread is None:
            with self._start_lock:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._serve, args=(self._work,), name="mcpkit-sqlite", daemon=True
                    )
                    self._thread.start()
        self._work.put(_Work(function, loop, finish, time.monotonic() + DEFAULT_TIMEOUT))
        too_late = TimeoutError(
            f"{self.path} was not written in time: the disk does not answer. Check the disk"
        )
        timer = loop.call_later(2 * DEFAULT_TIMEOUT, finish, None, too_late)
        try:
            return await done
        finally:
            timer.cancel()

    def _serve(self, queue: SimpleQueue[_Work | None]) -> None:
        while (work := queue.get()) is not None:
            result: object = None
            failure: BaseException | None = None
            try:
                result = self._do(work)
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller
                failure = error
            call_in_loop(work.loop, work.finish, result, failure)
            del work, result, failure  # an idle thread must not keep objects alive
            self._maintain()

    def _do(self, work: _Work) -> object:
        with self.write_lock:
            if time.monotonic() >= work.deadline:
                raise self._failure(sqlite3.OperationalError("database is locked"))
            connection = self._open_writer()
            try:
                return work.function(connection)
            except BaseException as error:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    raise
                failure = self._failure(error)
                if not isinstance(failure, TimeoutError):
                    self.disconnect()
                raise failure from error

    def _maintain(self) -> None:
        """Delete expired rows, and truncate a large write-ahead log, now and then."""
        now = time.monotonic()
        if now - self._cleaned_up < _CLEAN_UP_INTERVAL:
            return
        self._cleaned_up = now
        with self.write_lock:
            if self._writer is None:
                return
            try:
                if self._clean_up(self._writer):
                    self._cleaned_up = 0.0
                if self.path.with_name(f"{self.path.name}-wal").stat().st_size > _MAX_LOG_SIZE:
                    # Without a pause between the writes of all processes, SQLite never starts the log again.
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except FileNotFoundError:  # another file is replacing it
                return
            except sqlite3.Error:  # readers do not see expired rows, so this can wait
                self.disconnect()

    # Connections

    def _open_writer(self) -> sqlite3.Connection:
        """Return the connection that writes, and open the one that reads. The caller has the lock for writing."""
        if self._writer is not None and self._current_file() != self._writer_file:
            self.disconnect()
        try:
            if self._writer is None:
                self._writer, self._writer_file = self._connect(DEFAULT_TIMEOUT), self._current_file()
            if self._reader is None or self._reader_file != self._writer_file:
                reader = self._connect(DEFAULT_TIMEOUT)  # without the lock, because it may take seconds
                with self.read_lock:
                    self._use_reader(reader)
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return self._writer

    def _use_reader(self, reader: sqlite3.Connection) -> sqlite3.Connection:
        self._close_reader()
        reader.execute("PRAGMA query_only = 1")
        reader.execute(f"PRAGMA busy_timeout = {round(_READ_TIMEOUT * 1000)}")
        self._reader, self._reader_file = reader, self._current_file()
        return reader

    def _connect(self, timeout: float) -> sqlite3.Connection:
        if (network := _network_file_system(self.path)) is not None:
            raise OSError(
                f"{self.path} is on a network file system ({network}), where SQLite's file locks do not "
                "work. Use a file on a local disk, or Redis(...) to share between machines"
            )
        try:
            # An existing file must not be opened here: closing it would release SQLite's locks on it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            self._warn_of_access_by_others()
        connection = sqlite3.connect(
            self.path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._store_id = _prepare(connection, timeout, self._synchronous)
        except BaseException:
            connection.close()
            raise
        return connection

    def _warn_of_access_by_others(self) -> None:
        """Log a warning once if other users own the file, or can read or change it."""
        if sys.platform != "win32" and not self._is_access_checked:
            self._is_access_checked = True
            status = self.path.stat()
            if status.st_uid != os.geteuid():
                logger.warning(
                    "%s is owned by another user, who can read and change its contents. Change its owner, "
                    "or use another file",
                    self.path,
                )
            elif status.st_mode & (stat.S_IROTH | stat.S_IWOTH):
                logger.warning(
                    "%s can be accessed by other users of this machine (mode %04o). Run chmod 600 on it",
                    self.path,
                    stat.S_IMODE(status.st_mode),
                )

    def _current_file(self) -> tuple[int, int] | None:
        """Return device and inode of the file that has the path now."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _close_reader(self) -> None:
        if self._reader is not None:
            with suppress(sqlite3.Error):
                self._reader.close()
            self._reader = None

    def disconnect(self) -> None:
        """Close the connections. The next use opens new ones."""
        with self.write_lock, self.read_lock:
            self._close_reader()
            if self._writer is not None:
                with suppress(sqlite3.Error):
                    self._writer.close()
                self._writer = None

    def close(self) -> None:
        """Close the file and end the thread, until the next use."""
        with self._start_lock:
            if self._thread is not None:
                self._work.put(None)
                self._work, self._thread = SimpleQueue(), None
        self.disconnect()

    def _failure(self, error: sqlite3.Error) -> OSError:
        """Return the OSError for an error of SQLite: a TimeoutError if the file is only locked."""
        text = str(error)
        if "locked" in text or "busy" in text:
            return TimeoutError(
                f"{self.path} is locked by another process ({text}). Try again, or end the process that holds the lock"
            )
        if isinstance(error, _SchemaError):
            return OSError(f"{self.path} {text}")
        if "readonly" in text or "attempt to write" in text:
            return PermissionError(
                f"{self.path} cannot be written ({text}). Make the file and its folder writable for this process"
            )
        if "unable to open" in text:
            return OSError(
                f"{self.path} cannot be opened ({text}). Check that its folder exists and is writable for this process"
            )
        if "malformed" in text or "not a database" in text:
            return OSError(
                f"{self.path} is damaged or not an SQLite database ({text}). Move it away together with "
                "its -wal and -shm files; mcpkit then creates an empty one"
            )
        return OSError(f"{self.path} cannot be used: SQLite reports {text!r}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Run a block as one transaction that may write. `Database.run` rolls it back after an exception."""
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")


# Schema

_APPLICATION_ID = 0x6D63706B  # "mcpk", in the header of the file

# Statements that migrate a file from each version to the next, the first one from an empty file. A migration only adds,
# so that running processes of the previous version are not affected. Tables in which each change updates the expiry
# have no index on it: expired rows are searched every few seconds only. An open job has no expiry (NULL).
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
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


class _SchemaError(sqlite3.DatabaseError):
    """The file is not of this version or an earlier one; the text follows the name of the file."""


def _prepare(connection: sqlite3.Connection, timeout: float, synchronous: Synchronous) -> str:
    """Configure a connection, and create or migrate the tables; return the identifier of the file.

    Args:
        connection: The connection.
        timeout: Seconds to wait for a lock of another process.
        synchronous: See `Synchronous`; the file stays consistent with either value.

    Raises:
        sqlite3.Error: SQLite fails.
        _SchemaError: The file is of a later version, or of another program.
    """
    version = _schema_version(connection)
    deadline = time.monotonic() + timeout
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError:  # another process creates the file; SQLite does not wait for that
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            if mode != "wal":
                raise _SchemaError(
                    "is on a file system that does not support SQLite's write-ahead log, such as a "
                    "network file system. Use a file on a local disk"
                )
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA journal_size_limit = 16777216")  # bytes kept when the log starts again
    if version < len(_MIGRATIONS):
        try:
            with transaction(connection):
                for migration in _MIGRATIONS[_schema_version(connection) :]:
                    for statement in migration:
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute("INSERT OR IGNORE INTO about VALUES ('home', ?)", (os.urandom(16).hex(),))
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    (store_id,) = connection.execute("SELECT value FROM about WHERE name = 'home'").fetchone()
    return str(store_id)


def _schema_version(connection: sqlite3.Connection) -> int:
    # One statement and so one snapshot, because another process may be creating the file.
    version, application, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if application != _APPLICATION_ID and (tables or application or version):
        raise _SchemaError("is the database of another program. Use another file")
    if version > len(_MIGRATIONS):
        raise _SchemaError(
            f"was written by a later version of mcpkit (format {version}; this version supports up to "
            f"{len(_MIGRATIONS)}). Update mcpkit, or use another file"
        )
    return int(version)


# Network file systems

_MOUNTS = Path("/proc/self/mountinfo")

# Linux names of file systems with locks and shared memory that do not work between machines
_NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "smb3"),
        *("smbfs", "vboxsf", "fuse.blobfuse2", "fuse.cephfs", "fuse.davfs", "fuse.gcsfuse"),
        *("fuse.glusterfs", "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    )
)


def _network_file_system(path: Path) -> str | None:
    """Return the kind of network file system of a file, which may not exist yet, such as `nfs4`.

    Returns:
        None for a local disk, and on systems other than Linux.
    """
    try:
        lines = os.fsdecode(_MOUNTS.read_bytes()).splitlines()
    except OSError:
        return None
    file, kind, longest = os.path.realpath(path), "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        # A blank in the path, for example, is written as \040.
        mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        # Of several file systems that are mounted at one path, the last one is visible.
        if len(mount) >= len(longest) and os.path.commonpath((mount, file)) == mount:
            longest, kind = mount, after.split(" ")[0]
    return kind if kind in _NETWORK_FILE_SYSTEMS else None


# Forks: a connection that was opened before a fork must not be used or closed after it, and a process must not have
# another connection beside such a one; see "How To Corrupt An SQLite Database File", 2.6.

_databases: WeakSet[Database] = WeakSet()
_forking: list[Database] = []
_fork_lock = threading.RLock()  # a fork in another thread waits


def _before_fork() -> None:
    _fork_lock.acquire()
    _forking[:] = _databases
    for database in _forking:
        database.write_lock.acquire()
        database.read_lock.acquire()
        database.disconnect()


def _after_fork(*, is_child: bool) -> None:
    for database in _forking:
        if is_child:
            database.reset()
        else:
            database.read_lock.release()
            database.write_lock.release()
    _forking.clear()
    _fork_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=partial(_after_fork, is_child=False),
        after_in_child=partial(_after_fork, is_child=True),
    )
