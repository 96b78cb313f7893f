"""Queues of distinct changes: for one client, or from other threads into an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from ...identity.change import Change

logger = logging.getLogger(__name__)


class Pending:
    """A queue of distinct changes, in the order of their first occurrence.

    Args:
        limit: Maximum number of changes; the three lists are accepted beyond it.
        is_for_all: Whether the queue has changes for several audiences. Then events of a topic for different audiences
            are separate entries, in the order of their last occurrence, so that each client gets the latest one last.
    """

    __slots__ = ("_changes", "_is_for_all", "_limit")

    LIMIT = 256
    """Maximum number of changes that wait for one client."""

    def __init__(self, limit: float = LIMIT, *, is_for_all: bool = False) -> None:
        self._changes: dict[tuple[object, ...], Change] = {}
        self._limit = limit
        self._is_for_all = is_for_all

    def add(self, change: Change) -> bool:
        """Add a change, or merge it with an equal one in the queue; False if the queue is full."""
        slot: tuple[object, ...] = (change.kind, change.key)
        if self._is_for_all and change.params is not None:
            slot = (*slot, change.audience)
            waiting = self._changes.pop(slot, None)
        else:
            waiting = self._changes.get(slot)
        if waiting is None and change.key is not None and len(self._changes) >= self._limit:
            return False
        self._changes[slot] = change if waiting is None else waiting | change
        return True

    def replace_oldest(self, change: Change) -> Change:
        """Replace the oldest update of a resource by another one, and return the oldest."""
        oldest = next(slot for slot, waiting in self._changes.items() if waiting.uri is not None)
        lost = self._changes.pop(oldest)
        self._changes[change.kind, change.key] = change
        return lost

    def pop(self) -> Change:
        """Remove and return the oldest change."""
        return self._changes.pop(next(iter(self._changes)))

    def take(self, most: int | None = None) -> list[Change]:
        """Remove and return all changes, or at most that many of the oldest."""
        return [self._changes.pop(slot) for slot in tuple(islice(self._changes, most))]

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self._changes)


class Mailbox:
    """A queue that moves changes from any thread into the running event loop.

    Args:
        begin: Called in the loop when the queue is no longer empty, once until `take` has returned nothing.
        limit: See `Pending`.
    """

    def __init__(self, begin: Callable[[], object], limit: float = float("inf")) -> None:
        self._begin = begin
        self._loop = weakref.ref(asyncio.get_running_loop())
        self._lock = threading.Lock()
        self._pending = Pending(limit, is_for_all=True)
        self._is_begun = False

    def put(self, change: Change) -> bool:
        """Add a change, from any thread and without blocking; False if the loop has ended."""
        with self._lock:
            self._pending.add(change)
            if self._is_begun:
                return True
            self._is_begun = True
        with suppress(RuntimeError):  # the loop is closed
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._begin)
                return True
        logger.debug(
            "discarded a change, as the event loop of its clients is closed. Nothing needs to be done"
        )
        return False

    def take(self, most: int | None = None) -> list[Change]:
        """Remove and return all changes, or at most that many of the oldest."""
        with self._lock:
            changes = self._pending.take(most)
            self._is_begun = bool(changes)
        return changes
