"""Connections of one process to an SQLite file: one for reads, and one for writes in a thread."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, TypeVar
from weakref import WeakSet

from .disks import network_of
from .tables import SchemaError, Synchronous, prepare

logger = logging.getLogger(__name__)

T = TypeVar("T")
Row = tuple[object, ...]

DEFAULT_TIMEOUT = 5.0
"""Seconds that a write waits for a lock of another process."""

_GLANCE = 0.05
"""Seconds that a read in an event loop waits for a lock of another process."""

_HOUSEKEEPING = 5.0
"""Seconds between two clean-ups of expired rows, if there are writes."""


_LARGE = 67_108_864
"""Size in bytes of the write-ahead log above which writers wait for a checkpoint."""


_OTHERS = stat.S_IROTH | stat.S_IWOTH


class _Work(NamedTuple):
    do: Callable[[sqlite3.Connection], object]
    settle: Callable[[object, BaseException | None], None]
    deadline: float


class Database:
    """An SQLite file, opened on first use, and again after a failure or after it was replaced.

    It has two connections. One reads, in the thread of the caller: that takes microseconds, because writers do not
    block readers. The other one writes, in a thread of its own that waits for other processes and for the disk. Both
    are closed while the process forks, as SQLite demands, so that a child opens its own connections.

    Failures are raised as OSError with a text that names the remedy.

    Args:
        path: The file. A new file is readable for its owner only.
        tidy: Removes expired rows, now and then, on the connection that writes; returns True if there may be more.
        synchronous: Whether a committed write is on the disk.
    """

    def __init__(
        self, path: Path, tidy: Callable[[sqlite3.Connection], bool], synchronous: Synchronous = "normal"
    ) -> None:
        self.path = path
        self._tidy = tidy
        self._synchronous: Synchronous = synchronous
        self._is_looked_at = False
        self.renew()
        _OPEN.add(self)

    def renew(self) -> None:
        """Discard connections and threads in a forked child."""
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._home = ""
        self._file: tuple[int, int] | None = None
        self._read_file: tuple[int, int] | None = None
        # Reentrant: the garbage collector may run code that comes back here wherever memory is asked for.
        self.reading = threading.RLock()
        self.writing = threading.RLock()
        self._starting = threading.Lock()
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._tidied = 0.0

    # Reading

    @property
    def store_id(self) -> str:
        """Identifier of the file. A file that replaces it has another one.

        Raises:
            OSError: The file has not been opened yet, and cannot be.
        """
        if not self._home:
            self.glance("SELECT 1")
        return self._home

    def glance(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a fast query, in the current thread.

        Raises:
            OSError: The file cannot be read.
        """
        with self.reading:
            try:
                return self._opened().execute(sql, values).fetchall()
            except sqlite3.Error as error:
                failure = self._failure(error)
                if not isinstance(failure, TimeoutError):
                    self._close_reader()
                raise failure from error

    def follow(self) -> None:
        """Close the connection that reads if another file has replaced the one that is open."""
        with self.reading:
            found = self._found()
            if self._reader is not None and found is not None and found != self._read_file:
                self._close_reader()

    def quick_glance(self, sql: str, values: Sequence[object]) -> list[Row] | None:
        """Return the rows of a fast query; None if it would block. Then use `rows`.

        Raises:
            OSError: The file cannot be read.
        """
        if self._reader is None:
            return None
        try:
            return self.glance(sql, values)
        except TimeoutError:
            return None

    async def rows(self, sql: str, values: Sequence[object]) -> list[Row]:
        """Return the rows of a query, from the thread that writes.

        Raises:
            OSError: The file cannot be read.
        """
        return await self.run(lambda connection: connection.execute(sql, values).fetchall())

    # Writing

    async def run(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on the connection that writes, after earlier calls, and return its result.

        Raises:
            OSError: The file cannot be written, or not within a few seconds.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def take(result: object, error: BaseException | None) -> None:
            if done.done():
                return  # nobody waits any more
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]  # what `do` has returned
            else:
                done.set_exception(error)

        def give_up() -> None:
            take(
                None,
                TimeoutError(
                    f"{self.path} was not written in time: the disk does not answer. Check the disk"
                ),
            )

        def settle(result: object, error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(take, result, error)

        self._start()
        self._work.put(_Work(do, settle, time.monotonic() + DEFAULT_TIMEOUT))
        timer = loop.call_later(2 * DEFAULT_TIMEOUT, give_up)
        try:
            return await done
        finally:
            timer.cancel()

    def _start(self) -> None:
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._serve, args=(self._work,), name="mcpkit-sqlite", daemon=True
                    )
                    self._thread.start()

    def _serve(self, queue: SimpleQueue[_Work | None]) -> None:
        while (work := queue.get()) is not None:
            try:
                result, problem = self._do(work), None
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
                result, problem = None, error
            work.settle(result, problem)
            del work, result, problem  # nothing is held while there is nothing to do
            self._tidy_up()

    def _do(self, work: _Work) -> object:
        with self.writing:
            if time.monotonic() >= work.deadline:
                raise self._failure(sqlite3.OperationalError("database is locked"))
            connection = self._opened_to_write()
            try:
                return work.do(connection)
            except BaseException as error:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    raise
                failure = self._failure(error)
                if not isinstance(failure, TimeoutError):
                    self.let_go()
                raise failure from error

    def _tidy_up(self) -> None:
        if (now := time.monotonic()) - self._tidied < _HOUSEKEEPING:
            return
        self._tidied = now
        with self.writing:
            if self._writer is None:
                return
            try:
                if self._tidy(self._writer):
                    self._tidied -= _HOUSEKEEPING
                if self.path.with_name(f"{self.path.name}-wal").stat().st_size > _LARGE:
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # all write without a pause
            except FileNotFoundError:  # it is being replaced
                return
            except sqlite3.Error:  # what has expired is not seen anyway, and is looked for again
                self.let_go()

    # The connections

    def _opened(self) -> sqlite3.Connection:
        """Return the connection that reads. The caller has the lock for reading."""
        return self._reader or self._read_by(self._connect(_GLANCE))

    def _read_by(self, reader: sqlite3.Connection) -> sqlite3.Connection:
        self._close_reader()
        reader.execute("PRAGMA query_only = 1")
        reader.execute(f"PRAGMA busy_timeout = {round(_GLANCE * 1000)}")
        self._reader, self._read_file = reader, self._found()
        return reader

    def _opened_to_write(self) -> sqlite3.Connection:
        """Return the connection that writes. The caller has the lock for writing."""
        if self._writer is not None and self._found() != self._file:
            self.let_go()  # another file has taken the place of the one that is open
        try:
            if self._writer is None:
                self._writer, self._file = self._connect(DEFAULT_TIMEOUT), self._found()
            if self._reader is None or self._read_file != self._file:
                reader = self._connect(DEFAULT_TIMEOUT)  # without the lock, as it may take a while
                with self.reading:
                    self._read_by(reader)
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return self._writer

    def _connect(self, patience: float) -> sqlite3.Connection:
        if (network := network_of(self.path)) is not None:
            raise OSError(
                f"{self.path} is on a network file system ({network}), where SQLite's file locks do not "
                "work. Use a file on a local disk, or Redis(...) to share between machines"
            )
        try:
            # An existing file must not be opened here: to close it would take away SQLite's locks on it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            self._look_who_else_reads_it()
        connection = sqlite3.connect(
            self.path, timeout=patience, isolation_level=None, check_same_thread=False
        )
        try:
            self._home = prepare(connection, patience, self._synchronous)
        except BaseException:
            connection.close()
            raise
        return connection

    def _look_who_else_reads_it(self) -> None:
        """Log a warning once if other users own the file, or can read or change it."""
        if sys.platform != "win32" and not self._is_looked_at:
            self._is_looked_at = True
            status = self.path.stat()
            if status.st_uid != os.geteuid():
                logger.warning(
                    "%s is owned by another user, who can read and change its contents. Change its owner, "
                    "or use another file",
                    self.path,
                )
            elif status.st_mode & _OTHERS:
                mode = stat.S_IMODE(status.st_mode)
                logger.warning(
                    "%s can be accessed by other users of this machine (mode %04o). Run chmod 600 on it",
                    self.path,
                    mode,
                )

    def _found(self) -> tuple[int, int] | None:
        """Return device and inode of the file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _close_reader(self) -> None:
        if self._reader is not None:
            with suppress(sqlite3.Error):
                self._reader.close()
            self._reader = None

    def let_go(self) -> None:
        """Close the connections. The next use opens new ones."""
        with self.writing, self.reading:
            self._close_reader()
            if self._writer is not None:
                with suppress(sqlite3.Error):
                    self._writer.close()
                self._writer = None

    def close(self) -> None:
        """Close the file and end the thread, until the next use."""
        with self._starting:
            if self._thread is not None:
                self._work.put(None)
                self._work, self._thread = SimpleQueue(), None
        self.let_go()

    def _failure(self, error: sqlite3.Error) -> OSError:
        """Return the OSError for an error of SQLite: a TimeoutError if the file is only locked."""
        text = str(error)
        if "locked" in text or "busy" in text:
            return TimeoutError(
                f"{self.path} is locked by another process ({text}). Try again, or end the process that holds "
                "the lock"
            )
        if isinstance(error, SchemaError):
            return OSError(f"{self.path} {text}")
        if "readonly" in text or "attempt to write" in text:
            return PermissionError(
                f"{self.path} cannot be written ({text}). Make the file and its folder writable for this "
                "process"
            )
        if "unable to open" in text:
            return OSError(
                f"{self.path} cannot be opened ({text}). Check that its folder exists and is writable for "
                "this process"
            )
        if "malformed" in text or "not a database" in text:
            return OSError(
                f"{self.path} is damaged or not an SQLite database ({text}). Move it away together with "
                "its -wal and -shm files; mcpkit then creates an empty one"
            )
        return OSError(f"{self.path} cannot be used: SQLite reports {text!r}")


# A connection that was opened before a fork must not be used after it, nor closed, nor may there be another one beside
# it: see "How To Corrupt An SQLite Database File", 2.6.

_OPEN: WeakSet[Database] = WeakSet()


class _Fork:
    """Closes all connections while the process forks."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a fork of another thread waits
        self._held: list[Database] = []

    def begin(self) -> None:
        self._lock.acquire()
        self._held = list(_OPEN)
        for database in self._held:
            database.writing.acquire()
            database.reading.acquire()
            database.let_go()

    def end(self) -> None:
        for database in self._held:
            database.reading.release()
            database.writing.release()
        self._lock.release()

    def end_in_child(self) -> None:
        for database in self._held:
            database.renew()
        self._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    _fork = _Fork()
    os.register_at_fork(before=_fork.begin, after_in_parent=_fork.end, after_in_child=_fork.end_in_child)
