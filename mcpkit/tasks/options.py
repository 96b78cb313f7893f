"""Who runs the tasks of a server, and how many there may be."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..common.numbers import check_count, check_seconds


class TaskOptions(NamedTuple):
    """Who runs the tasks of a server, and how many there may be: `Server(tasks=TaskOptions(by="workers", slots=4))`.

    Attributes:
        by: Who runs them: `replicas`, each process that serves; or `workers` alone, which
            `mcpkit worker server:server` starts.
        slots: How many tasks one process runs at a time.
        lease: Seconds after which a task whose process has ended is another one's.
        max_open_per_owner: Tasks that one principal may have open; over HTTP without login, one IP address.
        max_open: Tasks that may be open in all.
    """

    by: Literal["replicas", "workers"] = "replicas"
    slots: int = 8
    lease: float = 30.0
    max_open_per_owner: int = 100
    max_open: int = 10_000


def options_of(tasks: object) -> TaskOptions:
    """Return what stands in `Server(tasks=...)`, checked.

    Raises:
        TypeError: It is something else.
        ValueError: It is out of range.
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
