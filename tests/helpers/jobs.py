"""Calls of a queue where no event loop runs."""

from __future__ import annotations

from collections.abc import Mapping

from mcpkit.state.queue import Added, Job, Message, Queue, Taken
from tests.helpers.engines import done

LINE = "s/task/a"


def add(
    queue: Queue,
    key: str,
    value: bytes = b"",
    *,
    line: str = LINE,
    owner: str = "",
    most: int = 1000,
    most_of_owner: int = 1000,
) -> Added:
    return done(queue.add(key, value, queue=line, owner=owner, most=most, most_of_owner=most_of_owner))


def look(queue: Queue, key: str) -> Job:
    """Return a job that is there."""
    job = done(queue.look(key))
    assert job is not None
    return job


def change(
    queue: Queue,
    job: Job,
    value: bytes = b"changed",
    *,
    fence: int | None = None,
    due: float | None = None,
    keep: float | None = None,
    message: Message | None = None,
) -> str | None:
    """Change a job, by whoever has seen it as it is given."""
    return done(
        queue.change(job.key, value, version=job.version, fence=fence, due=due, keep=keep, message=message)
    )


def take(queue: Queue, *lines: str, most: int = 100, lease: float = 30, late: float = 0) -> Taken:
    return done(queue.take(lines or (LINE,), most=most, lease=lease, late=late))


def keys(queue: Queue, *lines: str, most: int = 100, lease: float = 30, late: float = 0) -> list[str]:
    """Take jobs, and return their keys."""
    return [job.key for job in take(queue, *lines, most=most, lease=lease, late=late).jobs]


def take_one(queue: Queue, lease: float = 30) -> Job:
    """Take the one job that is ready."""
    (job,) = take(queue, lease=lease).jobs
    return job


def renew(queue: Queue, leases: Mapping[str, tuple[int, float]]) -> set[str]:
    return done(queue.renew(leases))


def owned(queue: Queue, owner: str, *, server: str = "s", after: str = "", most: int = 100) -> list[str]:
    return [job.key for job in done(queue.owned(owner, server=server, after=after, most=most))]
