"""Queue of jobs in Redis."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import inf

from .queue import Added, Job, LeasedJobs, Message, QueueStats, RoundRobin, check_job, server_of
from .redis_link import Link, Reply, Text
from .redis_pubsub import LONG, MOST_MESSAGES, Log, decoded, encoded
from .redis_queue_scripts import ADD, CHANGE, OWNED, RENEW, TAKE, WAITING

_SHARD = b"q{0}:"
"""Beginning of the keys of all jobs, with a hash tag. There is one shard; others would be chosen by the owner."""

_ADDED: Mapping[object, Added] = {
    b"added": "added",
    b"exists": "exists",
    b"full": "full",
    b"owner_full": "owner_full",
}


class RedisQueue(ABC):
    """The queue of a `Redis` storage.

    Args:
        prefix: Beginning of all keys.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._jobs = prefix + _SHARD
        self._turns = RoundRobin()

    @abstractmethod
    def _opened(self) -> tuple[Link, Log]:
        """Return the connections of this process, and its message log."""

    def _operation(self) -> bytes:
        return self._prefix + b"o:" + os.urandom(16).hex().encode()

    def _telling(self, log: Log) -> tuple[tuple[bytes, bytes], tuple[Text, ...]]:
        """Return the first keys and arguments of scripts that publish a message."""
        beside = self._prefix + b"m:" + os.urandom(16).hex().encode()
        return (log.key, beside), (MOST_MESSAGES, LONG, self._jobs)

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job that may be taken at once, and notify waiting workers."""
        check_job(value)
        link, log = self._opened()
        keys, args = self._telling(log)
        args += (encoded(key), value, os.urandom(16).hex(), os.urandom(16).hex())
        args += (encoded(queue), encoded(server_of(queue)), encoded(owner), max_open, max_open_per_owner)
        done = await link.run(link.script(ADD, keys, *args))
        return _ADDED[self._told(log, done)]

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        link, _ = self._opened()
        found = await link.run(
            link.command("HMGET", self._jobs + b"j:" + encoded(key), "value", "version", "fence")
        )
        match found:
            case [bytes(value), bytes(version), bytes(fence)]:
                return Job(key, value, decoded(version), int(fence))
            case _:
                return None

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
        check_job(value)
        link, log = self._opened()
        keys, args = self._telling(log)
        new = os.urandom(16).hex()
        args += (encoded(key), value, new, encoded(version))
        args += ("" if fence is None else fence, "" if due is None else _microseconds(due))
        args += ("" if ttl is None else max(0, round(ttl * 1000)), *map(encoded, message or ()))
        done = await link.run(link.script(CHANGE, (*keys, self._operation()), *args))
        return new if self._told(log, done) == b"1" else None

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready."""
        link, _ = self._opened()
        order = map(encoded, self._turns.order(queues))
        args = (self._jobs, limit, _microseconds(lease), _microseconds(ready_for), *order)
        match await link.run(link.script(TAKE, (self._operation(),), *args)):
            case [bytes(now), list(found)]:
                pass
            case _:
                raise AssertionError(
                    "the Lua script TAKE must return a time and a list of jobs. This is a bug of "
                    "mcpkit, please report it"
                )
        jobs: list[Job] = []
        for each in found:
            assert isinstance(each, list), "TAKE must return each job as a list"
            jobs.append(_job(each[:4]))
            assert isinstance(each[4], bytes), "TAKE must return the queue of each job"
            self._turns.served(decoded(each[4]))
        return LeasedJobs(int(now) / 1e6, jobs)

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""
        if not leases:
            return set()
        link, _ = self._opened()
        args: list[Text] = [self._jobs]
        for key, (fence, seconds) in leases.items():
            args += (encoded(key), fence, _microseconds(seconds))
        lost = await link.run(link.script(RENEW, (self._operation(),), *args))
        assert isinstance(lost, list), "RENEW must return a list of keys"
        return {decoded(key) for key in lost if isinstance(key, bytes)}

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        link, _ = self._opened()
        args = (self._jobs, encoded(f"{server}/{owner}"), encoded(after), limit)
        found = await link.run(link.script(OWNED, (), *args))
        assert isinstance(found, list), "OWNED must return a list of jobs"
        return [_job(each) for each in found]

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        link, _ = self._opened()
        found = await link.run(link.script(WAITING, (), self._jobs, encoded(server)))
        assert isinstance(found, list), "WAITING must return a list of queues"
        waiting: list[QueueStats] = []
        for each in found:
            match each:
                case [bytes(queue), int(ready), int(held), bytes(waited)]:
                    waiting.append(QueueStats(decoded(queue), ready, held, int(waited) / 1e6))
                case _:
                    raise AssertionError(
                        "the Lua script WAITING must return a name and three numbers for each queue. "
                        "This is a bug of mcpkit, please report it"
                    )
        return waiting

    def _told(self, log: Log, done: Reply) -> Reply:
        """Return the result of a script that may have published a message, and note the position in the log."""
        assert isinstance(done, list), "the script must return its result and a position"
        log.note(done[1])
        return done[0]


def _job(found: Reply) -> Job:
    match found:
        case [bytes(key), bytes(value), bytes(version), bytes(fence)]:
            return Job(decoded(key), value, decoded(version), int(fence))
        case _:
            raise AssertionError(
                "a job in Redis must have a key, a value, a version and a fence. This is a bug of "
                "mcpkit, please report it"
            )


def _microseconds(seconds: float) -> Text:
    return "inf" if seconds == inf else round(seconds * 1e6)
