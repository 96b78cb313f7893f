"""Storage within one process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from .base import StoredValue, Subscription, check_put, take_tokens

if TYPE_CHECKING:
    from .job_queue import Added, Job, LeasedJobs, MemoryQueue, Message, QueueStats

V = TypeVar("V")

_NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class Memory:
    """Storage within one process. Its data ends with the process, and its coroutines never suspend.

    It is the default storage of a server.

    Readers do not see expired keys. The next write frees their memory, in time proportional to the number of expired
    keys. Without writes, `sweep` frees it.

    Args:
        clock: Returns the time in seconds, from any start.
    """

    is_persistent = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Reentrant: the garbage collector may end a subscription wherever memory is allocated.
        self._lock = threading.RLock()
        self._records: _ExpiringDict[Mapping[str, str]] = _ExpiringDict(clock)
        self._buckets: _ExpiringDict[float] = _ExpiringDict(clock)  # a bucket expires when it is full
        self._values: _ExpiringDict[StoredValue] = _ExpiringDict(clock)
        self._subscriptions: dict[str, dict[Subscription, None]] = {}
        self._ids: dict[int, str] = {}
        self._queue: MemoryQueue | None = None

    @property
    def store_id(self) -> str:
        """Random identifier; another one in a forked child, which has a copy of the data."""
        process = os.getpid()
        return self._ids.get(process) or self._ids.setdefault(process, os.urandom(8).hex())

    def sweep(self) -> None:
        """Free the memory of expired keys."""
        with self._lock:
            self._records.sweep()
            self._buckets.sweep()
            self._values.sweep()
        if self._queue is not None:
            self._queue.sweep()

    def __len__(self) -> int:
        """Return the number of keys, including expired ones that are not swept yet."""
        jobs = 0 if self._queue is None else len(self._queue)
        return len(self._records) + len(self._buckets) + len(self._values) + jobs

    # PubSub

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key`; empty when it is absent or expired."""
        return self._records.get(key) or _NO_FIELDS

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, which expires `ttl` seconds from now."""
        with self._lock:
            now = self._records.sweep()
            fields = self._records.get(key) or _NO_FIELDS
            if changes:
                merged = {**fields, **changes}
                fields = MappingProxyType({name: text for name, text in merged.items() if text is not None})
            if fields:
                self._records.set(key, fields, now + ttl)
            else:
                self._records.remove(key)

    async def erase(self, key: str) -> None:
        """Remove `key`; nothing happens when it is absent."""
        with self._lock:
            self._records.remove(key)

    async def claim(self, key: str, ttl: float) -> bool:
        """Claim `key` for `ttl` seconds; return True if it was free."""
        with self._lock:
            now = self._records.sweep()
            if self._records.get(key) is not None:
                return False
            self._records.set(key, _NO_FIELDS, now + ttl)
            return True

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take `cost` tokens from the bucket `key`; return 0.0, or the seconds to wait."""
        with self._lock:
            now = self._buckets.sweep()
            full_at = self._buckets.get(key) or now
            full_at, wait = take_tokens(full_at, now, every=every, burst=burst, cost=cost)
            self._buckets.set(key, full_at, full_at)
            return wait

    async def publish(self, topic: str, message: str) -> None:
        """Call the listeners of `topic`, in the current thread."""
        for each in tuple(self._subscriptions.get(topic, ())):
            each.deliver(message)

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic`, in the thread of the publisher; return its unsubscriber."""
        subscription = Subscription(topic, listener, missed)
        with self._lock:
            self._subscriptions.setdefault(topic, {})[subscription] = None

        def unsubscribe() -> None:
            with self._lock:
                others = self._subscriptions.get(topic, {})
                others.pop(subscription, None)
                if not others:
                    self._subscriptions.pop(topic, None)

        return unsubscribe

    async def listening(self) -> None:
        """Return at once: subscriptions take effect immediately."""

    # Store

    async def get(self, key: str) -> StoredValue | None:
        """Return the value of `key` with its version; None if it is absent or expired."""
        return self._values.get(key)

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        """Set `key`, if it still has this version; return the new version, or None."""
        check_put(value, ttl)
        with self._lock:
            now = self._values.sweep()
            before = self._values.get(key)
            if version != (None if before is None else before.version):
                return None
            stored = StoredValue(value, os.urandom(16).hex())
            self._values.set(key, stored, now + ttl)
            return stored.version

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove `key`, if it still has this version; return True if it was removed."""
        with self._lock:
            self._values.sweep()
            before = self._values.get(key)
            if before is None or before.version != version:
                return False
            self._values.remove(key)
            return True

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Iterate over the keys that begin with `prefix`, and their values."""
        with self._lock:
            keys = self._values.starting_with(prefix)
        for key in keys:
            if (stored := self._values.get(key)) is not None:
                yield key, stored

    # Queue

    def _jobs(self) -> MemoryQueue:
        """Return the queue, importing its module on first use: most servers have no tasks."""
        if self._queue is None:
            from .job_queue import MemoryQueue

            with self._lock:
                if self._queue is None:
                    self._queue = MemoryQueue(self._clock)
        return self._queue

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job that may be taken at once, and notify waiting workers."""
        added = self._jobs().add(key, value, queue, owner, max_open, max_open_per_owner)
        if added == "added":
            await self.publish(queue, "")
        return added

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        return self._jobs().get_job(key)

    async def change(
        self,
        key: str,
        value: bytes,
        *,
        version: str,
        fence: int | None = None,
        due: float | None = None,
        ttl: float | None = None,
        message: Message | None = None,
    ) -> str | None:
        """Replace the value of a job, if version and fencing token still match; return the new version, or None."""
        changed = self._jobs().change(key, value, version, fence, due, ttl)
        if changed is None:
            return None
        new_version, ready_queue = changed
        if message is not None:
            await self.publish(*message)
        if ready_queue is not None:
            await self.publish(ready_queue, "")
        return new_version

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready."""
        return self._jobs().take(queues, limit, lease, ready_for)

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""
        return self._jobs().renew(leases)

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        return self._jobs().list_jobs(owner, server, after, limit)

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        return self._jobs().list_queues(server)


class _ExpiringDict(Generic[V]):
    """Dictionary with an expiry for each key. `get` may be called in any thread; other methods need a lock.

    Args:
        clock: Returns the time in seconds, from any start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[V, float]] = {}
        self._expiries: list[
            tuple[float, str]
        ] = []  # a heap; an entry that was changed leaves its old expiry there

    def __len__(self) -> int:
        """Return the number of keys, including expired ones that are not swept yet."""
        return len(self._entries)

    def get(self, key: str) -> V | None:
        """Return the value of a key; None if it is absent or expired."""
        entry = self._entries.get(key)
        return None if entry is None or entry[1] <= self._clock() else entry[0]

    def starting_with(self, prefix: str) -> list[str]:
        """Return the keys with a prefix, including expired ones that are not swept yet."""
        return [key for key in self._entries if key.startswith(prefix)]

    def set(self, key: str, value: V, expires: float) -> None:
        """Set the value and the expiry of a key."""
        self._entries[key] = (value, expires)
        heappush(self._expiries, (expires, key))
        self._discard_old_expiries()

    def remove(self, key: str) -> None:
        """Remove a key, if it exists."""
        if self._entries.pop(key, None) is not None:
            self._discard_old_expiries()

    def _discard_old_expiries(self) -> None:
        if len(self._expiries) > 2 * len(self._entries) + 64:
            self._expiries = [(expires, key) for key, (_, expires) in self._entries.items()]
            heapify(self._expiries)

    def sweep(self) -> float:
        """Free the memory of expired keys, and return the time."""
        now = self._clock()
        removed = 0
        while self._expiries and self._expiries[0][0] <= now:
            expires, key = heappop(self._expiries)
            entry = self._entries.get(key)
            if entry is not None and entry[1] == expires:
                del self._entries[key]
                removed += 1
        if removed > len(self._entries):
            self._entries = dict(self._entries)  # a dict that only loses keys keeps its size
        return now
