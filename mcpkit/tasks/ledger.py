"""Storage of task records, which all processes share."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple, Protocol, runtime_checkable

from .._utils.errors import BusyError
from ..storage.base import PubSub
from ..storage.keys import Keys
from ..storage.queue import Added, Job, Message, Queue
from .record import FORMAT, Record

_PURPOSE = "task record"
_PLAIN = b"\0"

MAX_RECORD = 8 * 1024 * 1024
"""Maximum bytes of a record: arguments, responses, results of `ctx.once`, and the result together."""


@runtime_checkable
class Engine(PubSub, Queue, Protocol):
    """Members of a storage that tasks need."""

    @property
    def is_persistent(self) -> bool:
        """True if stored data outlives the process."""
        ...


class Held(NamedTuple):
    """A record with its version.

    Attributes:
        record: The record.
        version: Its version.
        fence: Fencing token of its latest lease.
    """

    record: Record
    version: str
    fence: int


class TooLargeError(ValueError):
    """A record would exceed the maximum size."""


class UnreadableTaskError(Exception):
    """A record cannot be decrypted with any of the secrets, or is of another version of mcpkit."""


class Ledger:
    """The task records of one server.

    In a storage that outlives the process, each record is encrypted for its key. Each change publishes a JSON object
    with `id` and `status` to the topic, in the same transaction.

    Args:
        engine: Storage of the records.
        keys: Keys for the encryption.
        max_open: Maximum number of open tasks.
        max_open_per_owner: Maximum number of open tasks of an owner.

    Attributes:
        engine: Storage of the records.
        topic: Topic of changes.
    """

    def __init__(self, engine: Engine, keys: Keys, *, max_open: int, max_open_per_owner: int) -> None:
        self.engine = engine
        self.server = keys.name.replace("%", "%25").replace("/", "%2F")  # what queues begin with has no slash
        self.topic = f"{keys.name}/tasks"
        self._keys = keys
        self._max_open = max_open
        self._max_open_of_owner = max_open_per_owner
        self._is_sealed = engine.is_persistent

    def queue_of(self, tool: str, digest: str) -> str:
        """Return the name of the queue for a version of a tool."""
        return f"{self.server}/task/{FORMAT}/{tool}/{digest}"

    @staticmethod
    def tool_of(queue: str) -> str:
        """Return the name of the tool of a queue."""
        return queue.split("/")[-2]

    async def add(self, record: Record, digest: str, whose: str) -> Added:
        """Add a task that waits for its first run.

        Args:
            record: The task.
            digest: Digest of its tool.
            whose: Owner for the limit of open tasks; empty for no owner, then that limit does not apply.

        Raises:
            TooLargeError: Its arguments are too large.
            OSError: The storage does not answer.
        """
        key = self._key(record.id)
        return await self.engine.add(
            key,
            self._closed(key, record),
            queue=self.queue_of(record.tool, digest),
            owner=whose,
            max_open=self._max_open,
            max_open_per_owner=self._max_open_of_owner if whose else self._max_open,
        )

    async def look(self, id_: str) -> Held | None:
        """Return a task; None if it does not exist.

        Raises:
            UnreadableTaskError: It cannot be read.
            OSError: The storage does not answer.
        """
        job = await self.engine.get_job(self._key(id_))
        return None if job is None else self.opened(job)

    async def change(
        self,
        held: Held,
        record: Record,
        *,
        fence: int | None = None,
        due: float | None = None,
    ) -> Held | None:
        """Replace a record, unless another caller has changed it since it was read.

        All processes are notified of changes that clients can see.

        Args:
            held: The record that was read.
            record: The new record.
            fence: Fencing token of the run; None for callers without a lease.
            due: Seconds until it may run; `math.inf` for not before the next change; None leaves that as it is.

        Returns:
            The new record; None if nothing was changed.

        Raises:
            TooLargeError: It would be too large.
            OSError: The storage does not answer.
        """
        key = self._key(record.id)
        version = await self.engine.change(
            key,
            self._closed(key, record),
            version=held.version,
            fence=fence,
            due=due,
            ttl=record.keep if record.is_over else None,
            message=None if _shown(record) == _shown(held.record) else self._message(record),
        )
        return None if version is None else Held(record, version, held.fence)

    async def owned(self, owner: str, after: str, limit: int) -> tuple[list[Record], str | None]:
        """Return a page of an owner's tasks, the newest first, without unreadable ones.

        Args:
            owner: The owner.
            after: Id of the last task of the previous page; empty for the first page.
            limit: Maximum number of tasks.

        Returns:
            The tasks, and the id after which there are more, or None.

        Raises:
            OSError: The storage does not answer.
        """
        jobs = await self.engine.list_jobs(
            owner, server=self.server, after=self._key(after) if after else "", limit=limit + 1
        )
        found: list[Record] = []
        for job in jobs[:limit]:
            with suppress(UnreadableTaskError):
                found.append(self.opened(job).record)
        return found, jobs[limit - 1].key.removeprefix(self._key("")) if len(jobs) > limit else None

    def opened(self, job: Job) -> Held:
        """Return the record of a job.

        Raises:
            UnreadableTaskError: None of the secrets decrypts it, or it is of another version of mcpkit.
        """
        value = job.value
        if value[:1] == _PLAIN:
            data: bytes | None = value[1:]
        elif value[:1] != bytes([FORMAT]):
            raise UnreadableTaskError(
                f"the task {job.key!r} was written by another version of mcpkit. Run the same version in all "
                "processes"
            )
        else:
            data = self._keys.decrypt(_PURPOSE, value[1:], _place(job.key))
        if data is None:
            raise UnreadableTaskError(
                f"the task {job.key!r} cannot be decrypted with the given secrets. Add the secret that was "
                "used to write it, Server(secret_key=[new, old])"
            )
        return Held(Record.load(data), job.version, job.fence)

    def _closed(self, key: str, record: Record) -> bytes:
        data = record.dump()
        if len(data) > MAX_RECORD:
            raise TooLargeError(
                f"the task record would have {len(data):,} bytes (arguments, answers and result together), "
                f"but the limit is {MAX_RECORD:,}. Store large data elsewhere and return a link to it"
            )
        if not self._is_sealed:
            return _PLAIN + data
        return bytes([FORMAT]) + self._keys.encrypt(_PURPOSE, data, _place(key))

    def _message(self, record: Record) -> Message:
        return Message(self.topic, json.dumps({"id": record.id, "status": record.status}))

    def _key(self, id_: str) -> str:
        return f"{self.server}/task/{id_}"


def _shown(record: Record) -> object:
    """Return the parts of a task that clients see, except its times: a change of them is published."""
    return record.status, record.message, record.progress, record.asked


def _place(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def unreachable() -> BusyError:
    """Return the error for a storage that does not answer."""
    return BusyError("The state of tasks is not available. Try again later")
