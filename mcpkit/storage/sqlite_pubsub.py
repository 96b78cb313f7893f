"""Message bus in an SQLite file, polled by a thread of each process that has subscriptions."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress

from .base import Subscription
from .sqlite_database import Database

logger = logging.getLogger(__name__)

_INTERVAL = 0.1  # seconds between two polls
_RETRY_INTERVAL = 1.0  # seconds between two polls while the file cannot be read
_BATCH = 64  # messages that are read at a time
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
        rows = self._database.read_now(_POLL, (delivered, _BATCH))
        store_id, latest, *_ = rows[0]
        if (
            store_id != known_id or latest < delivered
        ):  # another file, a restored one, or the first one to be read
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
            with_gap = tuple(
                each
                for each, after in self._subscriptions.items()
                if after is None or max(delivered, after) + 1 < first
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
        return len(messages) == _BATCH


def insert_message(connection: sqlite3.Connection, topic: str, message: str, now: float) -> None:
    """Publish in the current transaction. `MessageBus.wake` polls at once for listeners of this process."""
    insert = "INSERT INTO messages (topic, message, published) VALUES (?, ?, ?)"
    number = connection.execute(insert, (topic, message, now)).lastrowid or 0
    if number % (_MAX_MESSAGES // 10) == 0:
        connection.execute("DELETE FROM messages WHERE id <= ?", (number - _MAX_MESSAGES,))


def delete_old_messages(connection: sqlite3.Connection, now: float) -> None:
    """Delete messages that are older than the time for which they are kept."""
    # By id, because another process may have another clock: no message in the middle must be missing.
    select = "SELECT max(id) FROM messages WHERE published <= ?"
    (last,) = connection.execute(select, (now - _MAX_AGE,)).fetchone()
    if last is not None:
        connection.execute("DELETE FROM messages WHERE id <= ?", (last,))
