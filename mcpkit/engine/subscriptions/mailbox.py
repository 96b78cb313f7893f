"""Changes that wait, each once: for one reader, or for the event loop that they are to come into."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

from ...state.change import Change

logger = logging.getLogger("mcpkit")


class Pending:
    """Changes that wait, each once, in the order of its first time.

    Args:
        limit: How many may wait; beyond it there is still room for the three lists.
    """

    __slots__ = ("_changes", "_limit")

    LIMIT: Final = 256
    """How many may wait for one client."""

    def __init__(self, limit: float = LIMIT) -> None:
        self._changes: dict[Change, Change] = {}
        self._limit = limit

    def add(self, change: Change) -> bool:
        """Add a change, or those whom it is for to the one that waits; False when there is no room for it."""
        waiting = self._changes.get(change)
        if waiting is None and change.uri is not None and len(self._changes) >= self._limit:
            return False
        self._changes[change] = change if waiting is None else waiting | change
        return True

    def replace_oldest(self, change: Change) -> Change:
        """Add the update of a resource in the place of the oldest one, and return that."""
        oldest = next(waiting for waiting in self._changes if waiting.uri is not None)
        del self._changes[oldest]
        self._changes[change] = change
        return oldest

    def pop(self) -> Change:
        """Remove and return the change that waits for the longest time."""
        return self._changes.pop(next(iter(self._changes)))

    def take(self, most: int | None = None) -> list[Change]:
        """Remove and return all, or so many that wait for the longest time."""
        return [self._changes.pop(change) for change in tuple(islice(self._changes, most))]

    def __len__(self) -> int:
        """Count what waits."""
        return len(self._changes)


class Mailbox:
    """Changes made in any thread, on their way into the event loop that runs here.

    Args:
        begin: Called in the loop when something waits, once until `take` has returned nothing.
        limit: See `Pending`.
    """

    def __init__(self, begin: Callable[[], object], limit: float = float("inf")) -> None:
        self._begin = begin
        self._loop = weakref.ref(asyncio.get_running_loop())
        self._lock = threading.Lock()
        self._pending = Pending(limit)
        self._is_begun = False

    def put(self, change: Change) -> bool:
        """Add a change, from any thread and without blocking; False when the loop has ended."""
        with self._lock:
            self._pending.add(change)
            if self._is_begun:
                return True
            self._is_begun = True
        with suppress(RuntimeError):  # the loop is closed
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._begin)
                return True
        logger.debug("a change came after the end of the event loop that heard of them")
        return False

    def take(self, most: int | None = None) -> list[Change]:
        """Remove and return what waits, or so many that wait for the longest time."""
        with self._lock:
            changes = self._pending.take(most)
            self._is_begun = bool(changes)
        return changes
