"""Dictionary in memory with an expiry for each key."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

V = TypeVar("V")

_STALE = 64  # so many dates of the calendar may be out of date, beside one for each key


class _Entry(Generic[V]):
    __slots__ = ("due", "expires", "value")

    def __init__(self, value: V, expires: float, due: float) -> None:
        self.value = value
        self.expires = expires
        self.due = due  # when the calendar looks at the key: never later than `expires`


class Expiring(Generic[V]):
    """Dictionary in memory with an expiry for each key.

    Readers do not see expired keys. `sweep` frees their memory, in time proportional to their number.

    Args:
        clock: Returns the time in seconds, from any start.

    Attributes:
        lock: Lock that writers hold; readers need none.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Reentrant: the garbage collector may run code that comes back here wherever memory is asked for.
        self.lock = threading.RLock()
        self._entries: dict[str, _Entry[V]] = {}
        self._calendar: list[tuple[float, str]] = []  # a heap; lengthening a life leaves it alone

    def __len__(self) -> int:
        """Return the number of keys, including expired ones that are not swept yet."""
        return len(self._entries)

    def get(self, key: str) -> V | None:
        """Return the value of a key; None if it is absent or expired."""
        entry = self._entries.get(key)  # what it holds is never changed: another entry takes its place
        return None if entry is None or entry.expires <= self._clock() else entry.value

    def beginning(self, prefix: str) -> list[str]:
        """Return the keys with a prefix, including expired ones that are not swept yet."""
        with self.lock:
            return [key for key in self._entries if key.startswith(prefix)]

    # With the lock

    def latest(self, key: str) -> V | None:
        """Return the value of a key as of the last sweep."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def sweep(self) -> float:
        """Free the memory of expired keys, and return the time."""
        now = self._clock()
        removed = 0
        while self._calendar and self._calendar[0][0] <= now:
            due, key = heappop(self._calendar)
            entry = self._entries.get(key)
            if entry is None or entry.due != due:
                continue  # removed, or looked at earlier
            if entry.expires <= now:
                del self._entries[key]
                removed += 1
            else:
                entry.due = entry.expires
                heappush(self._calendar, (entry.due, key))
        if removed > len(self._entries):
            self._entries = dict(self._entries)  # a dict that only loses keys keeps its size
        return now

    def keep(self, key: str, value: V, expires: float) -> None:
        """Set the value and the expiry of a key."""
        entry = self._entries.get(key)
        if entry is not None and entry.due <= expires:
            self._entries[key] = _Entry(value, expires, entry.due)
            return
        self._entries[key] = _Entry(value, expires, expires)
        heappush(self._calendar, (expires, key))
        self._tidy()

    def remove(self, key: str) -> None:
        """Remove a key, if it exists."""
        self._entries.pop(key, None)
        self._tidy()

    def _tidy(self) -> None:
        if len(self._calendar) > 2 * len(self._entries) + _STALE:
            self._calendar = [(entry.due, key) for key, entry in self._entries.items()]
            heapify(self._calendar)
