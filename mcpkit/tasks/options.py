"""Options of tasks."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .._utils.numbers import check_count, check_seconds


class TaskOptions(NamedTuple):
    """Options of tasks: `Server(tasks=TaskOptions(by="workers", slots=4))`.

    Attributes:
        by: Processes that run tasks: `replicas`, each server process; or `workers`, only those that
            `mcpkit worker server:server` starts.
        slots: Number of tasks that one process runs at a time.
        lease: Seconds after which another process takes over the task of a process that ended.
        max_open_per_owner: Maximum number of open tasks of a principal; over HTTP without login, of an IP address.
        max_open: Maximum number of open tasks in all.
    """

    by: Literal["replicas", "workers"] = "replicas"
    slots: int = 8
    lease: float = 30.0
    max_open_per_owner: int = 100
    max_open: int = 10_000


def options_of(tasks: object) -> TaskOptions:
    """Return the checked value of `Server(tasks=...)`.

    Raises:
        TypeError: It has the wrong type.
        ValueError: An option is out of range.
    """
    if tasks is None:
        return TaskOptions()
    if tasks in ("workers", "replicas"):
        return TaskOptions(by="workers" if tasks == "workers" else "replicas")
    if not isinstance(tasks, TaskOptions):
        raise TypeError(f'tasks must be "workers", "replicas" or TaskOptions(...), got {tasks!r}')
    if tasks.by not in {"replicas", "workers"}:
        raise ValueError(f'TaskOptions(by=...) must be "replicas" or "workers", got {tasks.by!r}')
    check_count("TaskOptions(slots=...)", tasks.slots)
    check_seconds("TaskOptions(lease=...)", tasks.lease)
    check_count("TaskOptions(max_open_per_owner=...)", tasks.max_open_per_owner)
    check_count("TaskOptions(max_open=...)", tasks.max_open)
    return tasks
