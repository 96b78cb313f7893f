"""Queue of jobs that workers of several processes take, each leased to one worker at a time; and the one in memory."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Literal, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

# Result of `Queue.add`: added, the key exists, or the limit of open jobs of the server or the owner is reached
Added = Literal["added", "exists", "full", "owner_full"]


class Job(NamedTuple):
    """A record of a `Queue`.

    Attributes:
        key: Key of the job.
        value: Stored value.
        version: Opaque version of the value, different from that of any other value, past or future.
        fence: Fencing token of the latest lease. 0 for a job that was never taken, and greater with each lease: by one,
            unless the storage may have lost a lease.
    """

    key: str
    value: bytes
    version: str
    fence: int


class LeasedJobs(NamedTuple):
    """Jobs leased by `Queue.take`.

    Attributes:
        now: Time of the storage's clock, in Unix seconds. It is the same for all processes.
        jobs: The leased jobs, with their new fencing tokens.
    """

    now: float
    jobs: list[Job]


class QueueStats(NamedTuple):
    """Statistics of one queue.

    Attributes:
        queue: Name of the queue.
        ready: Number of jobs that a worker may take now.
        held: Number of jobs that are leased, or may be taken later.
        oldest: Seconds for which the oldest ready job has waited; 0 without ready jobs.
    """

    queue: str
    ready: int
    held: int
    oldest: float


class Message(NamedTuple):
    """A message that the storage publishes in the same transaction as a change, as `PubSub.publish` does."""

    topic: str
    text: str


class Queue(Protocol):
    """Jobs with leases, shared by several processes: the part of a storage that tasks use.

    *Jobs.* A key holds bytes, of some megabytes at most and opaque to the storage. `add` creates a job, and `change`
    replaces its value by compare-and-set: of all callers with the same version, one succeeds. A job is open until a
    change ends it. An ended job is in no queue, counts toward no limit, cannot be taken, and expires. An open job never
    expires. Each method is atomic, also when a connection breaks and the command is sent again.

    *Leases.* A worker that takes a ready job gets a lease of some seconds. When the lease ends without a change or a
    renewal, another worker may take the job. Its fencing token is then greater than all before, also than those that
    the storage has lost with its last writes. A change with an older fencing token is rejected. A caller that did not
    take the job, for example to cancel it, changes it without a fencing token.

    *Order.* Within a queue, the job that became ready first is taken first. Several queues take turns.

    *Wake-up.* When `add` or `change` makes a job ready, the storage publishes an empty message to the topic with the
    name of the queue; see `PubSub`. It publishes nothing when a lease ends or when the delay of a job is over. Workers
    poll for those.

    Thread safety, event loops and failures are as for `Store`.
    """

    async def add(
        self,
        key: str,
        value: bytes,
        *,
        queue: str,
        owner: str,
        max_open: int,
        max_open_per_owner: int,
    ) -> Added:
        """Add a job that may be taken at once.

        Args:
            key: Key of the job.
            value: Value of the job.
            queue: Name of the queue, `server/...`: the text before the first `/` is the name of the server.
            owner: Owner of the job; empty for no owner, then `max_open_per_owner` does not apply.
            max_open: Maximum number of open jobs in all queues of the server.
            max_open_per_owner: Maximum number of open jobs of the owner on the server.

        Returns:
            `added`, `exists`, `full` (the server has `max_open` jobs) or `owner_full`.
        """
        ...

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        ...

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
        """Replace the value of a job, unless another caller has changed it since it was read.

        Args:
            key: Key of the job.
            value: New value.
            version: The version that was read.
            fence: Fencing token of the caller's lease; None for callers without a lease. Nothing is changed if another
                worker has taken the job since.
            due: Seconds from now until the job may be taken; `math.inf` for never, until another change. It ends the
                lease. None leaves the lease or the time as it is.
            ttl: Ends the job, which expires after this many seconds; None leaves it open. An ended job cannot be
                changed.
            message: Message to publish with the change.

        Returns:
            The new version; None if nothing was changed.
        """
        ...

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready. Their values and versions stay the same.

        Args:
            queues: Names of the queues. The queue that was served least recently comes first.
            limit: Maximum number of jobs, at least 1.
            lease: Duration of the lease in seconds.
            ready_for: Take only jobs that have been ready for at least this many seconds.
        """
        ...

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases.

        Args:
            leases: For each key of a job, the fencing token of its lease, and the new duration in seconds from now.

        Returns:
            The keys of lost leases: another worker has taken the job, it has ended, or a change has ended the lease.
        """
        ...

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, open and ended, the newest first.

        Args:
            owner: The owner.
            server: Name of the server: the text before the first `/` of the queue names.
            after: Key of the last job of the previous page; empty for the first page. If that job is gone, the page is
                empty.
            limit: Maximum number of jobs.
        """
        ...

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server that have open jobs.

        Args:
            server: Name of the server: the text before the first `/` of the queue names.
        """
        ...


# What the queues of all storages share


def server_of(queue: str) -> str:
    """Return the name of the server of a queue: the text before the first `/`."""
    return queue.partition("/")[0]


def check_job(value: object) -> None:
    """Check the value of a job.

    Raises:
        TypeError: The value is not bytes.
    """
    if not isinstance(value, bytes):
        raise TypeError(
            f"the value of a job must be bytes, got {type(value).__name__}. Encode it, for example as JSON"
        )


class RoundRobin:
    """Serves several queues in turn, so that a full queue does not starve the others.

    The queue that was served least recently comes first. Only what this process has taken counts.
    """

    def __init__(self) -> None:
        self._last_served: dict[str, int] = {}
        self._count = 0

    def order(self, queues: Iterable[str]) -> list[str]:
        """Return the queues, without duplicates, in the order of their turns."""
        return sorted(dict.fromkeys(queues), key=lambda queue: self._last_served.get(queue, 0))

    def served(self, queue: str) -> None:
        """Record that a queue was served, which comes last now."""
        self._count += 1
        self._last_served[queue] = self._count

    def choose(self, ready: Mapping[str, Sequence[T]], limit: int) -> list[T]:
        """Take from the queues in turn, one entry at a time.

        Args:
            ready: Entries of each queue, in the order of their turns.
            limit: Maximum number of entries.
        """
        chosen: list[T] = []
        for i in range(max(map(len, ready.values()), default=0)):
            for queue, entries in ready.items():
                if len(chosen) < limit and i < len(entries):
                    chosen.append(entries[i])
                    self.served(queue)
        return chosen


# In memory


class _Record:
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


class _OpenJobs:
    """The open jobs of one queue, by the time at which they may be taken."""

    def __init__(self) -> None:
        self.records: dict[str, _Record] = {}
        self._times: list[
            tuple[float, int, str]
        ] = []  # a heap; a job that was changed leaves its old time there

    def put(self, record: _Record) -> None:
        """Insert a job, or update its time."""
        self.records[record.job.key] = record
        if record.due != inf:
            heappush(self._times, (record.due, record.number, record.job.key))
        if len(self._times) > 2 * len(self.records) + 64:
            open_jobs = self.records.items()
            self._times = [(each.due, each.number, key) for key, each in open_jobs if each.due != inf]
            heapify(self._times)

    def ready(self, time: float, limit: int) -> list[_Record]:
        """Return the first jobs that were ready at a time, without removing them."""
        found: list[tuple[float, int, str]] = []
        while self._times and self._times[0][0] <= time and len(found) < limit:
            entry = heappop(self._times)
            record = self.records.get(entry[2])
            if record is not None and entry[:2] == (record.due, record.number) and found[-1:] != [entry]:
                found.append(entry)
        for entry in found:
            heappush(self._times, entry)
        return [self.records[key] for _, _, key in found]


class MemoryQueue:
    """The queue of a `Memory` storage. Each method is atomic and publishes nothing.

    Args:
        clock: Returns the time in seconds, from any start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._clock_start = time.time() - clock()  # in Unix seconds
        # Reentrant: the garbage collector may run code that calls the queue wherever memory is allocated.
        self._lock = threading.RLock()
        self._records: dict[str, _Record] = {}
        self._open: dict[str, _OpenJobs] = {}  # by queue
        self._owned: dict[tuple[str, str], dict[str, _Record]] = {}  # by server and owner
        self._open_counts: Counter[str | tuple[str, str]] = Counter()  # by server, and by server and owner
        self._expiries: list[tuple[float, str]] = []  # of ended jobs, a heap
        self._round_robin = RoundRobin()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of jobs, including expired ones that are not swept yet."""
        return len(self._records)

    def sweep(self) -> float:
        """Free the memory of expired jobs, and return the time."""
        with self._lock:
            now = self._clock()
            while self._expiries and self._expiries[0][0] <= now:
                _, key = heappop(self._expiries)
                owner = self._records.pop(key).owner
                del self._owned[owner][key]
                if not self._owned[owner]:
                    del self._owned[owner]
            return now

    def add(
        self, key: str, value: bytes, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job; see `Queue.add`."""
        check_job(value)
        server = server_of(queue)
        scope = (server, owner)
        with self._lock:
            now = self.sweep()
            if key in self._records:
                return "exists"
            if self._open_counts[server] >= max_open:
                return "full"
            if owner and self._open_counts[scope] >= max_open_per_owner:
                return "owner_full"
            self._count += 1
            job = Job(key, value, os.urandom(16).hex(), 0)
            record = self._records[key] = _Record(job, queue, scope, self._count, now)
            self._owned.setdefault(scope, {})[key] = record
            self._open.setdefault(queue, _OpenJobs()).put(record)
            self._open_counts[server] += 1
            self._open_counts[scope] += 1
            return "added"

    def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        record = self._records.get(key)
        if record is None or (record.expires is not None and record.expires <= self._clock()):
            return None
        return record.job

    def change(
        self, key: str, value: bytes, version: str, fence: int | None, due: float | None, ttl: float | None
    ) -> tuple[str, str | None] | None:
        """Replace the value of a job; return its version, and the queue if the job became ready in it."""
        check_job(value)
        with self._lock:
            now = self.sweep()
            record = self._records.get(key)
            if record is None or record.expires is not None or record.job.version != version:
                return None
            if fence is not None and record.job.fence != fence:
                return None
            record.job = Job(key, value, os.urandom(16).hex(), record.job.fence)
            new_version = record.job.version
            if ttl is not None:
                record.expires = now + ttl
                heappush(self._expiries, (record.expires, key))
                for counted in (record.owner[0], record.owner):
                    self._open_counts[counted] -= 1
                    if not self._open_counts[counted]:
                        del self._open_counts[counted]
                open_jobs = self._open[record.queue].records
                del open_jobs[key]
                if not open_jobs:
                    del self._open[record.queue]
            elif due is not None:
                record.due, record.is_leased = now + due, False
                self._open[record.queue].put(record)
                if due <= 0:
                    return new_version, record.queue
            return new_version, None

    def take(self, queues: Sequence[str], limit: int, lease: float, ready_for: float) -> LeasedJobs:
        """Lease jobs that are ready."""
        with self._lock:
            now = self.sweep()
            order = [queue for queue in self._round_robin.order(queues) if queue in self._open]
            ready = {queue: self._open[queue].ready(now - ready_for, limit) for queue in order}
            chosen = self._round_robin.choose(ready, limit)
            for record in chosen:
                key, value, version, fence = record.job
                record.job = Job(key, value, version, fence + 1)
                record.due, record.is_leased = now + lease, True
                self._open[record.queue].put(record)
            return LeasedJobs(now + self._clock_start, [record.job for record in chosen])

    def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""
        lost: set[str] = set()
        with self._lock:
            now = self.sweep()
            for key, (fence, seconds) in leases.items():
                record = self._records.get(key)
                if (
                    record is None
                    or not record.is_leased
                    or record.expires is not None
                    or record.job.fence != fence
                ):
                    lost.add(key)
                else:
                    record.due = now + seconds
                    self._open[record.queue].put(record)
        return lost

    def list_jobs(self, owner: str, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        with self._lock:
            self.sweep()
            owned = self._owned.get((server, owner), {})
            if after and after not in owned:
                return []
            before = owned[after].number if after else inf
            return [each.job for each in reversed(owned.values()) if each.number < before][:limit]

    def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        with self._lock:
            now = self._clock()
            found: list[QueueStats] = []
            for queue, open_jobs in self._open.items():
                if server_of(queue) == server:
                    due = [each.due for each in open_jobs.records.values()]
                    ready = [each for each in due if each <= now]
                    waited = now - min(ready, default=now)
                    found.append(QueueStats(queue, len(ready), len(due) - len(ready), waited))
            return found
