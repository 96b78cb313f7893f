"""The queue: records that wait for somebody to work on them, each in one pair of hands at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

Added = Literal["added", "exists", "full", "owner_full"]
"""What came of adding a job: it is there, it was there before, or there is no more room, for all or for its owner."""


class Job(NamedTuple):
    """A record of a `Queue`.

    Attributes:
        key: Its key.
        value: What it holds.
        version: What tells this value from all that any key has held before, or will hold.
        fence: What the latest taker knows, and nobody before it: 0 for a job that nobody has taken, 1 for the first who
            does, and greater each time; by one, unless the engine may have forgotten who has taken it.
    """

    key: str
    value: bytes
    version: str
    fence: int


class Taken(NamedTuple):
    """What a taker has got.

    Attributes:
        now: What the clock of the queue says, in Unix seconds: the same for all processes, whatever theirs say.
        jobs: What is to be worked on, with the fences that from now on count.
    """

    now: float
    jobs: list[Job]


class QueueStats(NamedTuple):
    """What is in one queue.

    Attributes:
        queue: Its name.
        ready: How many jobs nobody works on that somebody may take.
        held: How many are leased, or may be taken later.
        oldest: Seconds for which the first of the ready ones has waited; 0 where there is none.
    """

    queue: str
    ready: int
    held: int
    oldest: float


class Message(NamedTuple):
    """What is published in the same step as a change, as `Broker.publish` does."""

    topic: str
    text: str


class Queue(Protocol):
    """Records that are worked on by whoever takes them, in whichever process: the part of an engine that tasks need.

    *Jobs.* A key holds bytes, of some megabytes at most and without meaning for the engine. It is made by `add`, and
    changed by whoever has seen the latest version; of all who have seen it one alone succeeds. A job is open until a
    change ends it: from then on it is in no queue and counts for nobody, nobody takes it, and it expires after a while.
    An open one never expires. Each method is one step: all of it is done or nothing, also where a connection breaks and
    it is asked for again.

    *Taking.* A job may be taken when its time has come. Who takes it has a lease: nobody else gets it for so many
    seconds. When the lease is over without a change or a renewal, the next who asks gets the job, with a fence that is
    greater than all before it, also those that the engine has lost with its last writes. A change under an older fence
    is refused, however late it comes. Whoever does not take jobs, such as somebody who cancels one, changes it without
    a fence.

    *Order.* Of one queue those come first whose time came first; of several, each gets its turn.

    *Waking.* When a job becomes ready, by `add` or by a change, the name of its queue is published as a topic of the
    `Broker`, with an empty text. Nothing is published when a lease is over, nor when a time comes that a change has
    set: who waits for that looks now and then.

    *Threads, loops and failures* are as those of `Store`.
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
        """Make a job that may be taken at once.

        Args:
            key: Its key.
            value: What it holds.
            queue: Where it waits.
            owner: Whose it is; empty for nobody's, who has no bound of their own.
            max_open: Maximum number of open jobs in all queues of the server.
            max_open_per_owner: Maximum number of open jobs of the owner.
        """
        ...

    async def get_job(self, key: str) -> Job | None:
        """Return a job as it is now; None where there is none, or it has expired."""
        ...

    async def change(
        self,
        key: str,
        value: bytes,
        *,
        version: str,
        fence: int | None = None,
        due: float | None = None,
        keep: float | None = None,
        message: Message | None = None,
    ) -> str | None:
        """Set what a job holds, unless somebody else has changed it since it was read.

        Args:
            key: Its key.
            value: What it is to hold.
            version: The version that was read.
            fence: That of the taker; None for others. Where somebody else has taken it since, nothing is changed.
            due: Seconds from now until it may be taken; `math.inf` for never, until another change says so. None
                leaves that as it is: who has it keeps it.
            keep: Ends the job, which expires so many seconds from now; None leaves it open. One that has ended can be
                changed no more.
            message: What is published where it was changed.

        Returns:
            The new version; None where nothing was changed.
        """
        ...

    async def take(self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0) -> Taken:
        """Take jobs that are ready; what they hold, and its version, stays as it is.

        Args:
            queues: From where; one from which nothing has been taken for longest comes first.
            limit: How many at most, at least 1.
            lease: For how many seconds nobody else gets them.
            ready_for: Only such that have been ready for so many seconds.
        """
        ...

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Prolong leases.

        Args:
            leases: By the keys of jobs, the fence under which each was taken, and the seconds from now.

        Returns:
            The keys of those that are lost: somebody else has taken them, or they have ended, or their lease was given
            up by a change.
        """
        ...

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return somebody's jobs, open ones and those that have ended, the newest first.

        Args:
            owner: Whose.
            server: Of which server: the text before the first `/` of the names of the queues.
            after: The key of the last one that is known already; empty for the first page. After one that is not
                there any more there is nothing.
            limit: How many at most.
        """
        ...

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return what is in the queues of a server, those in which nothing is left out.

        Args:
            server: The text before the first `/` of their names.
        """
        ...


def server_of(queue: str) -> str:
    """Return the server that a queue is of: the text before the first `/` of its name."""
    return queue.partition("/")[0]


def check_job(value: object) -> None:
    """Refuse what no queue keeps.

    Raises:
        TypeError: The value is not bytes.
    """
    if not isinstance(value, bytes):
        raise TypeError(
            f"the value of a job must be bytes, got {type(value).__name__}. Encode it, for example as JSON"
        )
