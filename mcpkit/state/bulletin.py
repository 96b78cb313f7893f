"""Messages between processes that have one file: looked for several times a second, while somebody listens."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from .database import Database

logger = logging.getLogger("mcpkit")

_INTERVAL = 0.1
"""Seconds between two looks."""

_WHILE_FAILING = 1.0
"""Seconds between two looks where the file cannot be read."""

_AT_A_TIME = 64


class _Listener(NamedTuple):
    topic: str
    listener: Callable[[str], None]
    after: int  # the last message that is not for it


class Bulletin:
    """What is published in a file, told to whoever listens in this process.

    A thread looks for it. There is none while nobody listens.

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
        self._home = ""

    def subscribe(self, topic: str, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with each message to `topic` from now on; return what ends that."""
        if (
            self._process != os.getpid()
        ):  # a forked child, whose listeners are copies, and which has no thread
            self._begin()
        process, key = self._process, object()
        try:
            latest, home = self._latest(), self._database.home
        except OSError:  # then it is for what is published after the file can be read
            latest, home = 0, ""
        with self._lock:
            if not self._listeners:
                self._seen, self._home = latest, home
            self._listeners[key] = _Listener(topic, listener, latest)
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

    def wake(self) -> None:
        """Have the thread look at once: something has been published here."""
        self._wake.set()

    def close(self) -> None:
        """Let nobody hear any more, and wait for the thread, which else might open the file once more."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._listeners.clear()
            self._wake.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_WHILE_FAILING)

    def _latest(self) -> int:
        rows = self._database.glance("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
        return int(str(rows[0][0])) if rows else 0

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
                        "the shared store does not answer: what other processes publish is not heard"
                    )
                is_failing = True
            self._wake.wait(_WHILE_FAILING if is_failing else _INTERVAL)
            self._wake.clear()

    def _look(self) -> bool:
        """Tell what has been published since the last look, and say whether there may be more."""
        home = self._database.home
        if home != self._home:
            with self._lock:
                # Of a file that takes the place of another one all is new.
                self._seen = 0 if self._home else self._latest()
                self._home = home
                self._listeners = {
                    key: _Listener(each.topic, each.listener, 0) for key, each in self._listeners.items()
                }
        messages = self._database.glance(
            "SELECT id, topic, message FROM messages WHERE id > ? ORDER BY id LIMIT ?",
            (self._seen, _AT_A_TIME),
        )
        for number, topic, message in messages:
            assert isinstance(number, int), "it is the key of the table"
            self._seen = number
            for each in tuple(self._listeners.values()):
                if each.topic == topic and each.after < number:
                    try:
                        each.listener(str(message))
                    except Exception:  # one listener's fault is neither the publisher's nor the others'
                        logger.exception("A listener of the topic %s failed", topic)
        return len(messages) == _AT_A_TIME
