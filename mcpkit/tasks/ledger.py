"""The ledger: the records of tasks where all processes find them, and what may become of each."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple, Protocol, runtime_checkable

from ..common.errors import BusyError
from ..state.broker import PubSub
from ..state.keys import Keys
from ..state.queue import Added, Job, Message, Queue
from .record import FORMAT, Record

_PURPOSE = "task record"
_PLAIN = b"\0"

MAX_RECORD = 8 * 1024 * 1024
"""Bytes of a record: arguments, answers, what was done once, and the result, all together."""


@runtime_checkable
class Engine(PubSub, Queue, Protocol):
    """What an engine must have for tasks."""

    @property
    def is_persistent(self) -> bool:
        """Whether it outlives the process."""
        ...


class Held(NamedTuple):
    """A record as somebody has seen it.

    Attributes:
        record: The record.
        version: Its version.
        fence: How many times it has been taken.
    """

    record: Record
    version: str
    fence: int


class TooLargeError(ValueError):
    """A record would be larger than one may be."""


class UnreadableTaskError(Exception):
    """There is a record that none of the secrets opens, or one of another version of mcpkit."""


class Ledger:
    """The records of the tasks of one server.

    On an engine that outlives the process records are encrypted, each for its own key. Whatever changes one tells so
    under the ledger's topic, in the same step: a JSON object with `id` and `status`.

    Args:
        engine: Where they are.
        keys: What encrypts them.
        max_open: How many may be open at a time.
        max_open_per_owner: How many of one owner's.

    Attributes:
        engine: Where they are.
        topic: Under which what happens to them is told.
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
        """Return the tool that a queue is for."""
        return queue.split("/")[-2]

    async def add(self, record: Record, digest: str, whose: str) -> Added:
        """Make a task that waits for its first run.

        Args:
            record: The task.
            digest: That of its tool.
            whose: Among whose tasks it counts; empty for nobody's, who has no bound of their own.

        Raises:
            TooLargeError: Its arguments are too large.
            OSError: The engine does not answer.
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
        """Return a task as it is now; None where there is none any more.

        Raises:
            UnreadableTaskError: It cannot be read here.
            OSError: The engine does not answer.
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
        """Put another record in the place of one, unless somebody else has changed it since.

        All processes that serve hear of it where clients would see it.

        Args:
            held: What was seen.
            record: What it is to be.
            fence: That of the run which changes it; None for whoever does not run it.
            due: Seconds until it may be run; `math.inf` for not before the next change; None leaves that as it is.

        Returns:
            What there is now; None where nothing was changed.

        Raises:
            TooLargeError: It has become too large.
            OSError: The engine does not answer.
        """
        key = self._key(record.id)
        version = await self.engine.change(
            key,
            self._closed(key, record),
            version=held.version,
            fence=fence,
            due=due,
            keep=record.keep if record.is_over else None,
            message=None if _shown(record) == _shown(held.record) else self._message(record),
        )
        return None if version is None else Held(record, version, held.fence)

    async def owned(self, owner: str, after: str, limit: int) -> tuple[list[Record], str | None]:
        """Return a page of somebody's tasks, the newest first; those that cannot be read are left out.

        Args:
            owner: Whose.
            after: The id of the last one that is known already; empty for the first page.
            limit: How many at most.

        Returns:
            The tasks, and the id after which there are more; None where there are none.

        Raises:
            OSError: The engine does not answer.
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
        """Return what is in a job.

        Raises:
            UnreadableTaskError: None of the secrets opens it, or it is of another version of mcpkit.
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
    """Return what clients see of a task, but for the time: each process that serves hears of that, and of no more."""
    return record.status, record.message, record.progress, record.asked


def _place(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def unreachable() -> BusyError:
    """Return what a client is told where the engine does not answer."""
    return BusyError("The state of tasks is not available. Try again later")
