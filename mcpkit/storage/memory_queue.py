"""Queue of jobs within one process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import TypeVar

from .queue import Added, Job, LeasedJobs, QueueStats, check_job, server_of
from .turns import Turns

K = TypeVar("K")

_STALE = 64  # so many times of a line may be out of date, beside one for each job


class _Kept:
    """A job with its place in the queue.

    Attributes:
        job: The job as callers see it.
        queue: Name of the queue.
        owner: Server and owner.
        number: Sequence number of the job.
        due: Time at which it may be taken.
        is_leased: Whether `due` is the end of a lease.
        expires: Time at which an ended job is removed; None while it is open.
    """

    __slots__ = ("due", "expires", "is_leased", "job", "number", "owner", "queue")

    def __init__(self, job: Job, queue: str, owner: tuple[str, str], number: int, due: float) -> None:
        self.job = job
        self.queue = queue
        self.owner = owner
        self.number = number
        self.due = due
        self.is_leased = False
        self.expires: float | None = None


class _Line:
    """The open jobs of one queue."""

    def __init__(self) -> None:
        self.open: dict[str, _Kept] = {}
        self._times: list[tuple[float, int, str]] = []  # a heap; what a job had before is left in it

    def put(self, kept: _Kept) -> None:
        """Insert a job, or update its time."""
        self.open[kept.job.key] = kept
        if kept.due != inf:
            heappush(self._times, (kept.due, kept.number, kept.job.key))
        if len(self._times) > 2 * len(self.open) + _STALE:
            self._times = [(each.due, each.number, key) for key, each in self.open.items() if each.due != inf]
            heapify(self._times)

    def ready(self, by: float, limit: int) -> list[_Kept]:
        """Return the first jobs that were ready at a time, without removing them."""
        found: list[tuple[float, int, str]] = []
        while self._times and self._times[0][0] <= by and len(found) < limit:
            entry = heappop(self._times)
            kept = self.open.get(entry[2])
            if kept is not None and entry[:2] == (kept.due, kept.number) and found[-1:] != [entry]:
                found.append(entry)
        for entry in found:
            heappush(self._times, entry)
        return [self.open[key] for _, _, key in found]


class MemoryQueue:
    """The queue of a `Memory` storage. Each method is atomic and publishes nothing.

    Args:
        clock: Returns the time in seconds, from any start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = time.time() - clock()  # when the clock was at 0, in Unix seconds
        # Reentrant: the garbage collector may run code that comes back here wherever memory is asked for.
        self._lock = threading.RLock()
        self._kept: dict[str, _Kept] = {}
        self._lines: dict[str, _Line] = {}
        self._owned: dict[tuple[str, str], dict[str, _Kept]] = {}
        self._ended: list[tuple[float, str]] = []  # a heap
        self._open_of_server: dict[str, int] = {}
        self._open_of_owner: dict[tuple[str, str], int] = {}
        self._turns = Turns()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of jobs, including expired ones that are not swept yet."""
        return len(self._kept)

    def sweep(self) -> float:
        """Free the memory of expired jobs, and return the time."""
        with self._lock:
            now = self._clock()
            while self._ended and self._ended[0][0] <= now:
                _, key = heappop(self._ended)
                kept = self._kept.pop(key)
                owned = self._owned[kept.owner]
                del owned[key]
                if not owned:
                    del self._owned[kept.owner]
            return now

    def add(
        self, key: str, value: bytes, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job."""
        check_job(value)
        server = server_of(queue)
        whose = (server, owner)
        with self._lock:
            now = self.sweep()
            if key in self._kept:
                return "exists"
            if self._open_of_server.get(server, 0) >= max_open:
                return "full"
            if owner and self._open_of_owner.get(whose, 0) >= max_open_per_owner:
                return "owner_full"
            self._count += 1
            kept = _Kept(Job(key, value, os.urandom(16).hex(), 0), queue, whose, self._count, now)
            self._kept[key] = kept
            self._owned.setdefault(whose, {})[key] = kept
            _count(self._open_of_server, server, 1)
            _count(self._open_of_owner, whose, 1)
            self._lines.setdefault(queue, _Line()).put(kept)
            return "added"

    def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        kept = self._kept.get(key)
        if kept is None or (kept.expires is not None and kept.expires <= self._clock()):
            return None
        return kept.job

    def change(
        self, key: str, value: bytes, version: str, fence: int | None, due: float | None, ttl: float | None
    ) -> tuple[str, str] | None:
        """Replace the value of a job; return its version, and the queue in which it became ready or an empty text."""
        check_job(value)
        with self._lock:
            now = self.sweep()
            kept = self._kept.get(key)
            if kept is None or kept.expires is not None or kept.job.version != version:
                return None
            if fence is not None and kept.job.fence != fence:
                return None
            kept.job = Job(key, value, os.urandom(16).hex(), kept.job.fence)
            if ttl is not None:
                self._end(kept, now + ttl)
            elif due is not None:
                kept.due, kept.is_leased = now + due, False
                self._lines[kept.queue].put(kept)
                if due <= 0:
                    return kept.job.version, kept.queue
            return kept.job.version, ""

    def _end(self, kept: _Kept, expires: float) -> None:
        key, line = kept.job.key, self._lines[kept.queue]
        kept.expires = expires
        heappush(self._ended, (expires, key))
        _count(self._open_of_server, kept.owner[0], -1)
        _count(self._open_of_owner, kept.owner, -1)
        del line.open[key]
        if not line.open:
            del self._lines[kept.queue]

    def take(self, queues: Sequence[str], limit: int, lease: float, ready_for: float) -> LeasedJobs:
        """Lease jobs that are ready."""
        with self._lock:
            now = self.sweep()
            lines = {
                queue: self._lines[queue].ready(now - ready_for, limit)
                for queue in self._turns.order(queues)
                if queue in self._lines
            }
            taken = self._turns.deal(lines, limit)
            for kept in taken:
                key, value, version, fence = kept.job
                kept.job = Job(key, value, version, fence + 1)
                kept.due, kept.is_leased = now + lease, True
                self._lines[kept.queue].put(kept)
            return LeasedJobs(now + self._began, [kept.job for kept in taken])

    def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""
        lost: set[str] = set()
        with self._lock:
            now = self.sweep()
            for key, (fence, seconds) in leases.items():
                kept = self._kept.get(key)
                if kept is None or kept.expires is not None or not kept.is_leased or kept.job.fence != fence:
                    lost.add(key)
                else:
                    kept.due = now + seconds
                    self._lines[kept.queue].put(kept)
        return lost

    def list_jobs(self, owner: str, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        with self._lock:
            self.sweep()
            owned = self._owned.get((server, owner), {})
            if after and after not in owned:
                return []
            before = owned[after].number if after else inf
            found: list[Job] = []
            for kept in reversed(owned.values()):
                if kept.number < before and len(found) < limit:
                    found.append(kept.job)
            return found

    def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        with self._lock:
            now = self._clock()
            found: list[QueueStats] = []
            for queue, line in self._lines.items():
                if server_of(queue) == server:
                    ready = [each.due for each in line.open.values() if each.due <= now]
                    held = len(line.open) - len(ready)
                    found.append(QueueStats(queue, len(ready), held, now - min(ready, default=now)))
            return found


def _count(counts: dict[K, int], whose: K, more: int) -> None:
    counts[whose] = counts.get(whose, 0) + more
    if not counts[whose]:
        del counts[whose]
