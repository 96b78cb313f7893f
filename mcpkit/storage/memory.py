"""Storage within one process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from .expiring import Expiring
from .store import StoredValue, check_put

if TYPE_CHECKING:
    from .memory_queue import MemoryQueue
    from .queue import Added, Job, LeasedJobs, Message, QueueStats

logger = logging.getLogger(__name__)

_NOTHING: Mapping[str, str] = MappingProxyType({})


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
        self._records: Expiring[Mapping[str, str]] = Expiring(clock)
        self._buckets: Expiring[float] = Expiring(clock)  # by the times at which they are full, and expire
        self._values: Expiring[StoredValue] = Expiring(clock)
        self._lock = threading.RLock()  # reentrant: the garbage collector may end a subscription anywhere
        self._listeners: dict[str, dict[object, Callable[[str], None]]] = {}
        self._homes: dict[int, str] = {}
        self._clock = clock
        self._queue: MemoryQueue | None = None

    @property
    def store_id(self) -> str:
        """Random identifier; another one in a forked child, which has a copy of the data."""
        process = os.getpid()
        return self._homes.get(process) or self._homes.setdefault(process, os.urandom(8).hex())

    def sweep(self) -> None:
        """Free the memory of expired keys."""
        for kept in (self._records, self._buckets, self._values):
            with kept.lock:
                kept.sweep()
        if self._queue is not None:
            self._queue.sweep()

    def __len__(self) -> int:
        """Return the number of keys, including expired ones that are not swept yet."""
        kept = len(self._records) + len(self._buckets) + len(self._values)
        return kept + (0 if self._queue is None else len(self._queue))

    # PubSub

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key`; empty when it is absent or expired."""
        return self._records.get(key) or _NOTHING

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, which expires `ttl` seconds from now."""
        records = self._records
        with records.lock:
            now = records.sweep()
            fields = records.latest(key) or _NOTHING
            if changes:
                merged = {**fields, **changes}
                fields = MappingProxyType({name: text for name, text in merged.items() if text is not None})
            if fields:
                records.keep(key, fields, now + ttl)
            else:
                records.remove(key)

    async def erase(self, key: str) -> None:
        """Remove `key`; nothing happens when it is absent."""
        with self._records.lock:
            self._records.remove(key)

    async def claim(self, key: str, ttl: float) -> bool:
        """Claim `key` for `ttl` seconds; return True if it was free."""
        records = self._records
        with records.lock:
            now = records.sweep()
            if records.latest(key) is not None:
                return False
            records.keep(key, _NOTHING, now + ttl)
            return True

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take `cost` tokens from the bucket `key`; return 0.0, or the seconds to wait."""
        from .gcra import take_tokens

        buckets = self._buckets
        with buckets.lock:
            now = buckets.sweep()
            full_at = buckets.latest(key) or now
            full_at, wait = take_tokens(full_at, now, every=every, burst=burst, cost=cost)
            buckets.keep(key, full_at, full_at)
            return wait

    async def publish(self, topic: str, message: str) -> None:
        """Call the listeners of `topic`, in the current thread."""
        for listener in tuple(self._listeners.get(topic, {}).values()):
            try:
                listener(message)
            except Exception:  # one listener's fault is neither the publisher's nor the others'
                logger.exception(
                    "a listener of the topic %s raised an exception. Other listeners still receive "
                    "the message",
                    topic,
                )

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic`, in the thread of the publisher; return its unsubscriber."""
        key = object()
        with self._lock:
            self._listeners.setdefault(topic, {})[key] = listener

        def unsubscribe() -> None:
            with self._lock:
                listeners = self._listeners.get(topic, {})
                listeners.pop(key, None)
                if not listeners:
                    self._listeners.pop(topic, None)

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
        values = self._values
        with values.lock:
            now = values.sweep()
            before = values.latest(key)
            if version != (None if before is None else before.version):
                return None
            stored = StoredValue(value, os.urandom(16).hex())
            values.keep(key, stored, now + ttl)
            return stored.version

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove `key`, if it still has this version; return True if it was removed."""
        values = self._values
        with values.lock:
            values.sweep()
            before = values.latest(key)
            if before is None or before.version != version:
                return False
            values.remove(key)
            return True

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Iterate over the keys that begin with `prefix`, and their values."""
        for key in self._values.beginning(prefix):
            if (stored := self._values.get(key)) is not None:
                yield key, stored

    # Queue

    @property
    def _jobs(self) -> MemoryQueue:
        return self._begin_queue() if self._queue is None else self._queue

    def _begin_queue(self) -> MemoryQueue:
        from .memory_queue import MemoryQueue

        with self._lock:
            if self._queue is None:
                self._queue = MemoryQueue(self._clock)
            return self._queue

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job that may be taken at once, and notify waiting workers."""
        added = self._jobs.add(key, value, queue, owner, max_open, max_open_per_owner)
        if added == "added":
            await self.publish(queue, "")
        return added

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        return self._jobs.get_job(key)

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
        changed = self._jobs.change(key, value, version, fence, due, ttl)
        if changed is None:
            return None
        new, queue = changed
        if message is not None:
            await self.publish(*message)
        if queue:
            await self.publish(queue, "")
        return new

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready."""
        return self._jobs.take(queues, limit, lease, ready_for)

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""
        return self._jobs.renew(leases)

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        return self._jobs.list_jobs(owner, server, after, limit)

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        return self._jobs.list_queues(server)
