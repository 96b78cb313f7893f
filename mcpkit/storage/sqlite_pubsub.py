"""Message bus in an SQLite file, polled by a thread of each process that has subscriptions."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from typing import ParamSpec

from .database import Database, Row

logger = logging.getLogger(__name__)

P = ParamSpec("P")

_INTERVAL = 0.1
"""Seconds between two polls."""

_WHILE_FAILING = 1.0
"""Seconds between two polls if the file cannot be read."""

_AT_A_TIME = 64

_MOST_MESSAGES = 10_000
"""Number of messages that are kept for processes that have not read them."""

_LONGEST_WAIT = 30.0
"""Seconds for which messages are kept."""

_POST = "INSERT INTO messages (topic, message, published) VALUES (?, ?, ?)"
_FORGET = "DELETE FROM messages WHERE id <= ?"


_NEWS = (
    "SELECT about.value, coalesce(seq, 0), id, topic, message FROM about "
    "LEFT JOIN sqlite_sequence ON sqlite_sequence.name = 'messages' "
    "LEFT JOIN (SELECT id, topic, message FROM messages WHERE id > ? ORDER BY id LIMIT ?) "
    "WHERE about.name = 'home' ORDER BY id"
)
"""Selects the identifier of the file, the number of its last message, and some messages, in one snapshot."""


class _Listener:
    """A subscription.

    Attributes:
        topic: The topic.
        listener: Called with each message.
        missed: Called when messages were missed.
        after: Number of the last message before the subscription; None while the file cannot be read.
    """

    __slots__ = ("after", "listener", "missed", "topic")

    def __init__(
        self,
        topic: str,
        listener: Callable[[str], None],
        missed: Callable[[], None] | None,
        after: int | None,
    ) -> None:
        self.topic = topic
        self.listener = listener
        self.missed = missed
        self.after = after

    def tell_of_gap(self) -> None:
        """Notify the listener that messages may have been missed."""
        if self.missed is not None:
            _call(self.topic, self.missed)


class Bulletin:
    """Message bus in an SQLite file.

    A thread polls the file while there are subscriptions. Messages have consecutive numbers. If a number is missing, or
    another file has replaced the one that was read, listeners are notified that they missed messages.

    Args:
        database: The file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()  # reentrant: the garbage collector may end a subscription anywhere
        self._listeners: dict[object, _Listener] = {}
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._seen = 0  # the last message that has been told
        self._home = ""  # of the file that has it; empty until it has been read

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic` from now on; return a function that ends it."""
        if (
            self._process != os.getpid()
        ):  # a forked child, whose listeners are copies, and which has no thread
            self._begin()
        process, key = self._process, object()
        try:
            home, latest = _place(self._database.glance(_NEWS, (0, 0)))
        except OSError:  # then it is for what is published after the file can be read
            home, latest = "", None
        with self._lock:
            if not self._listeners:
                self._seen, self._home = latest or 0, home
            self._listeners[key] = _Listener(topic, listener, missed, latest)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="mcpkit-sqlite-bus", daemon=True)
                self._thread.start()

        def unsubscribe() -> None:
            if process != os.getpid():
                return
            with self._lock:
                self._listeners.pop(key, None)
                if not self._listeners:
                    self._wake.set()

        return unsubscribe

    async def listening(self) -> None:
        """Wait until the file can be read. From then on, all listeners receive messages.

        Raises:
            OSError: The file cannot be read.
        """
        home, latest = _place(await self._database.rows(_NEWS, (0, 0)))
        with self._lock:
            if not self._home:
                self._home, self._seen = home, latest
            for each in self._listeners.values():
                if each.after is None:
                    each.after = latest

    def wake(self) -> None:
        """Poll at once, because this process has published a message."""
        self._wake.set()

    def close(self) -> None:
        """End all subscriptions, and wait for the thread, which might open the file again otherwise."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._listeners.clear()
            self._wake.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_WHILE_FAILING)

    def _watch(self) -> None:
        is_failing = False
        while True:
            with self._lock:
                if not self._listeners:
                    self._thread = None
                    return
            try:
                while self._look():
                    pass
                is_failing = False
            except OSError:
                if not is_failing:
                    logger.exception(
                        "the shared store cannot be read: messages of other processes arrive late until "
                        "it answers again"
                    )
                is_failing = True
            self._wake.wait(_WHILE_FAILING if is_failing else _INTERVAL)
            self._wake.clear()

    def _look(self) -> bool:
        """Deliver the messages since the last poll; return True if there may be more."""
        self._database.follow()
        seen, known = self._seen, self._home
        rows = self._database.glance(_NEWS, (seen, _AT_A_TIME))
        home, latest = _place(rows)
        if home != known or latest < seen:
            self._begin_anew(known, home, latest)
            return True
        messages = [(number, topic, text) for _, _, number, topic, text in rows if isinstance(number, int)]
        first = messages[0][0] if messages else latest + 1
        self._tell_of_gap(seen, first)
        for number, topic, message in messages:
            self._seen = number
            for each in tuple(self._listeners.values()):
                if each.topic == topic and each.after is not None and each.after < number:
                    _call(each.topic, each.listener, str(message))
        return len(messages) == _AT_A_TIME

    def _begin_anew(self, known: str, home: str, latest: int) -> None:
        """Start with a file that replaced the one that was read before, or that is the first one that can be read."""
        with self._lock:
            if self._home != known:
                return  # somebody else has
            self._home = home
            # Of a file that takes the place of another one all is new; not so of one that was here before.
            self._seen = 0 if known and home != known else latest
            listeners = tuple(self._listeners.values())
            for each in listeners:
                each.after = self._seen
        for each in listeners:
            each.tell_of_gap()

    def _tell_of_gap(self, seen: int, first: int) -> None:
        """Notify listeners of messages that were removed between the last one read and the first one in the file."""
        with self._lock:
            listeners = tuple(self._listeners.values())
            missing = [each for each in listeners if each.after is None or max(seen, each.after) + 1 < first]
            for each in missing:
                each.after = first - 1
            self._seen = first - 1
        for each in missing:
            each.tell_of_gap()


def _place(rows: list[Row]) -> tuple[str, int]:
    """Return the identifier of the file and the number of its last message."""
    home, latest, *_ = rows[0]
    assert isinstance(latest, int), "the id of a message must be an integer"
    return str(home), latest


def _call(topic: str, listener: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
    try:
        listener(*arguments, **named)
    except Exception:  # one listener's fault is neither the publisher's nor the others'
        logger.exception(
            "a listener of the topic %s raised an exception. Other listeners still receive the message", topic
        )


def post(connection: sqlite3.Connection, topic: str, message: str, now: float) -> None:
    """Insert a message in the current transaction. `Bulletin.wake` polls at once for listeners of this process."""
    number = connection.execute(_POST, (topic, message, now)).lastrowid or 0
    if number % (_MOST_MESSAGES // 10) == 0:
        connection.execute(_FORGET, (number - _MOST_MESSAGES,))


def trim(connection: sqlite3.Connection, now: float) -> None:
    """Remove expired messages."""
    (last,) = connection.execute(
        "SELECT max(id) FROM messages WHERE published <= ?", (now - _LONGEST_WAIT,)
    ).fetchone()
    if last is not None:
        connection.execute(_FORGET, (last,))
