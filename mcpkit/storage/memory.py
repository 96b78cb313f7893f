"""Storage within one process."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .base import NO_FIELDS, QueueStats, StoredValue, Subscription, check_put, check_value, take_tokens

# `jobs_and_heartbeats` is imported on use: most servers have no tasks.
if TYPE_CHECKING:
    from .jobs_and_heartbeats import Added, Job, LeasedJobs, Message, RoundRobin

V = TypeVar("V")


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
        self._jobs: _ExpiringDict[_Record] = _ExpiringDict(clock)  # an open job never expires
        # By queue: the open jobs, each with the time at which it may be taken and its number, in this order.
        self._open: dict[str, list[tuple[Any, ...]]] = {}
        self._open_counts: Counter[str | tuple[str, str]] = Counter()  # by server, and by server and owner
        self._job_count = 0
        self._round_robin: RoundRobin | None = None
        self._clock_start = time.time() - clock()  # in Unix seconds

    @property
    def store_id(self) -> str:
        """Random identifier; another one in a forked child, which has a copy of the data."""
        process = os.getpid()
        return self._ids.get(process) or self._ids.setdefault(process, os.urandom(8).hex())

    def sweep(self) -> None:
        """Free the memory of expired keys."""
        with self._lock:
            for each in (self._records, self._buckets, self._values, self._jobs):
                each.sweep()

    def __len__(self) -> int:
        """Return the number of keys, including expired ones that are not swept yet."""
        return len(self._records) + len(self._buckets) + len(self._values) + len(self._jobs)

    # PubSub

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key`; empty when it is absent or expired."""
        return self._records.get(key) or NO_FIELDS

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, which expires `ttl` seconds from now."""
        with self._lock:
            now = self._records.sweep()
            fields = self._records.get(key) or NO_FIELDS
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
            self._records.set(key, NO_FIELDS, now + ttl)
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

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job that may be taken at once, and notify waiting workers."""
        from .jobs_and_heartbeats import Job, server_of

        check_value("job", value)
        server = server_of(queue)
        scope = (server, owner)
        with self._lock:
            now = self._jobs.sweep()
            if self._jobs.get(key) is not None:
                return "exists"
            if self._open_counts[server] >= max_open:
                return "full"
            if owner and self._open_counts[scope] >= max_open_per_owner:
                return "owner_full"
            self._job_count += 1
            record = _Record(Job(key, value, os.urandom(16).hex(), 0), queue, scope, self._job_count)
            self._jobs.set(key, record, inf)
            self._open.setdefault(queue, []).append((inf, record.number, record))
            self._schedule(record, now)
            self._open_counts.update((server, scope))
        await self.publish(queue, "")
        return "added"

    def _schedule(self, record: _Record, due: float | None) -> None:
        """Set the time at which an open job may be taken; None ends it. The lock is held."""
        line = self._open[record.queue]
        del line[bisect_left(line, (record.due, record.number))]
        record.due = due
        if due is not None:
            insort(line, (due, record.number, record))
        elif not line:
            del self._open[record.queue]

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        record = self._jobs.get(key)
        return None if record is None else record.job

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
        check_value("job", value)
        new_version = os.urandom(16).hex()
        with self._lock:
            now = self._jobs.sweep()
            record = self._jobs.get(key)
            if record is None or record.due is None or record.job.version != version:
                return None
            if fence is not None and record.job.fence != fence:
                return None
            record.job = record.job._replace(value=value, version=new_version)
            if ttl is not None:
                self._jobs.set(key, record, now + ttl)
                self._schedule(record, None)
                for counted in (record.scope[0], record.scope):
                    self._open_counts[counted] -= 1
                    if not self._open_counts[counted]:
                        del self._open_counts[counted]
            elif due is not None:
                record.is_leased = False
                self._schedule(record, now + due)
        if message is not None:
            await self.publish(*message)
        if ttl is None and due is not None and due <= 0:
            await self.publish(record.queue, "")
        return new_version

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready."""
        from .jobs_and_heartbeats import LeasedJobs, RoundRobin

        with self._lock:
            now = self._jobs.sweep()
            turns = self._round_robin = self._round_robin or RoundRobin()
            ready: dict[str, list[tuple[Any, ...]]] = {}
            for queue in turns.order(queues):
                line = self._open.get(queue, [])
                ready[queue] = line[: min(limit, bisect_right(line, (now - ready_for, inf)))]
            jobs: list[Job] = []
            for _, _, record in turns.choose(ready, limit):
                record.job = record.job._replace(fence=record.job.fence + 1)
                record.is_leased = True
                self._schedule(record, now + lease)
                jobs.append(record.job)
            return LeasedJobs(now + self._clock_start, jobs)

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""
        lost: set[str] = set()
        with self._lock:
            now = self._jobs.sweep()
            for key, (fence, seconds) in leases.items():
                record = self._jobs.get(key)
                is_open = record is not None and record.due is not None
                if record is not None and is_open and record.is_leased and record.job.fence == fence:
                    self._schedule(record, now + seconds)
                else:
                    lost.add(key)
        return lost

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        with self._lock:
            self._jobs.sweep()
            keys = self._jobs.starting_with("")
            owned = [each for key in keys if (each := self._jobs.get(key)) and each.scope == (server, owner)]
        if after:  # they are in the order of their creation
            del owned[next((i for i, each in enumerate(owned) if each.job.key == after), 0) :]
        return [each.job for each in reversed(owned)][:limit]

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        from .jobs_and_heartbeats import server_of

        with self._lock:
            now = self._clock()
            found: list[QueueStats] = []
            for queue, line in self._open.items():
                if server_of(queue) == server:
                    ready = bisect_right(line, (now, inf))
                    found.append(QueueStats(queue, ready, len(line) - ready, max(0.0, now - line[0][0])))
            return found


class _Record:
    """A job with its place in the queue.

    Attributes:
        job: The job as callers see it.
        queue: Name of the queue.
        scope: Server and owner.
        number: Sequence number of the job.
        due: Time at which it may be taken; None for an ended job.
        is_leased: Whether `due` is the end of a lease.
    """

    __slots__ = ("due", "is_leased", "job", "number", "queue", "scope")

    def __init__(self, job: Job, queue: str, scope: tuple[str, str], number: int) -> None:
        self.job = job
        self.queue = queue
        self.scope = scope
        self.number = number
        self.due: float | None = inf
        self.is_leased = False


class _ExpiringDict(Generic[V]):
    """Dictionary with an expiry for each key. `get` may be called in any thread; other methods need a lock.

    Args:
        clock: Returns the time in seconds, from any start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[V, float]] = {}
        # A heap; an entry that was changed leaves its old expiry there.
        self._expiries: list[tuple[float, str]] = []

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
