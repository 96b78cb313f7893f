"""The queue of jobs that workers of several processes take, and heartbeats that detect processes which have died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from .base import PubSub, QueueStats

logger = logging.getLogger(__name__)


# Jobs


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


# Heartbeats


BEAT = 2.0  # seconds between two heartbeats of a process, each of which is one read and one write
MISSED = 4  # missed heartbeats after which a process counts as dead
_FORGOTTEN = 30  # missed heartbeats after which the entry of a process is removed
_TTL = 60.0  # seconds for which the record lives after the last write
_LEAVE_TIMEOUT = 1.0  # seconds to record that this process exits
_ENDED = ""  # the entry of a process that exits normally


class Membership:
    """Heartbeats of the processes that serve a server, sent inside `async with`.

    Each process writes a growing number into one shared record. A process counts as dead when its number has not
    changed in `MISSED` polls, so clocks need not agree. Polls that fail do not count: while the storage does not
    answer, no process counts as dead.

    Args:
        storage: Storage of the record.
        name: Name of the server.
        process: Unique id of this process.
        beat: Seconds between two heartbeats; None for 2.

    Attributes:
        process: Unique id of this process.
        on_poll: Called after each poll.
    """

    on_poll: Callable[[], None] | None = None

    def __init__(self, storage: PubSub, name: str, process: str, beat: float | None = None) -> None:
        self.process = process
        self._storage = storage
        self._key = f"{name}/presence"
        self._beat = BEAT if beat is None else beat
        self._polls = 0
        self._first_poll = 0  # since this process is in the record
        self._entries: dict[str, str] = {}  # the record as it was read last
        self._changed: dict[str, int] = {}  # the poll in which each entry changed last

    def count(self) -> int:
        """Return the number of processes that serve, including this one: 1 or more."""
        return 1 + sum(process != self.process and not self.is_gone(process) for process in self._entries)

    def is_gone(self, process: str) -> bool:
        """Return True if a process has died or exited. An unknown process counts as alive at first.

        Args:
            process: Id of a process, which is tracked from now on.
        """
        if process == self.process:
            return False
        self._changed.setdefault(process, self._polls)
        return self._entries.get(process) == _ENDED or self._missed(process) >= MISSED

    def _missed(self, process: str) -> int:
        return self._polls - max(self._changed[process], self._first_poll)

    async def __aenter__(self) -> None:
        """Begin to send heartbeats."""
        self._beating = asyncio.get_running_loop().create_task(self.run())

    async def __aexit__(self, *_: object) -> None:
        """Stop, and record that this process exits."""
        self._beating.cancel()
        await asyncio.wait([self._beating])
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.leave(), _LEAVE_TIMEOUT)

    async def run(self) -> None:
        """Send heartbeats and poll for other processes, until cancelled."""
        is_failing = False
        while True:
            try:
                await self.poll()
                is_failing = False
            except OSError:
                if not is_failing:
                    logger.exception(
                        "the shared store does not answer: this process cannot see which other processes are "
                        "running. mcpkit tries again"
                    )
                is_failing = True
            await asyncio.sleep(self._beat)

    async def poll(self) -> None:
        """Poll for other processes once, and send a heartbeat.

        Raises:
            OSError: The storage does not answer.
        """
        entries = await self._storage.read(self._key)
        self._polls += 1
        if self.process not in entries:
            # The first poll, or the storage has lost the record: the other processes will write their entries again.
            self._first_poll = self._polls
        for process, entry in entries.items():
            if self._entries.get(process) != entry:
                self._changed[process] = self._polls
        self._entries = dict(entries)
        removed: dict[str, str | None] = {}
        for process in tuple(self._changed):
            if process != self.process and self._missed(process) >= _FORGOTTEN:
                del self._changed[process]
                if self._entries.pop(process, None) is not None:
                    removed[process] = None
        await self._storage.write(self._key, {**removed, self.process: str(self._polls)}, _TTL)
        if self.on_poll is not None:
            self.on_poll()

    async def leave(self) -> None:
        """Record that this process exits, if the storage answers."""
        with suppress(OSError):
            await self._storage.write(self._key, {self.process: _ENDED}, _TTL)
