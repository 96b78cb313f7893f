"""Queue of jobs that workers of several processes take: its protocol, and what the queues of all storages share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
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


# Helpers of all storages


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
