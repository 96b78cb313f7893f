"""Jobs that nobody takes: those of queues that nobody knows any more are given up in the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ..state.queue import Job, Queue, QueueStats
from .trouble import Trouble

_INTERVAL = 30.0
"""Seconds between two looks."""

_AT_A_TIME = 16

_SLACK = 1.0
"""Tolerance in seconds between two readings of the time since when the first job of a queue is ready."""


class Giving(Protocol):
    """What knows which jobs are taken here, and ends those that nobody takes."""

    @property
    def server(self) -> str:
        """The text before the first `/` in the names of all of its queues."""
        ...

    @property
    def patience(self) -> float:
        """Seconds for which nobody may take from a queue that is not known here before its jobs are given up."""
        ...

    def queues(self) -> Sequence[str]:
        """Return the queues from which jobs may be taken now."""
        ...

    async def give_up(self, job: Job, now: float) -> None:
        """End a job that nobody takes.

        Args:
            job: The job, with the fence under which it was taken for that; its lease is not prolonged.
            now: What the clock of the queue said then.
        """
        ...


class Orphans:
    """Gives up the jobs of queues of a server from which nobody has taken for long: here nobody knows them either.

    A queue whose first job has been taken meanwhile is worked on, however long the others have waited.

    Args:
        queue: Where the jobs are.
        work: What ends them.
        lease: For how many seconds nobody else gets one while it is ended.
        clock: The time, in seconds from any start.
    """

    def __init__(
        self, queue: Queue, work: Giving, lease: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._work = work
        self._lease = lease
        self._still: dict[str, tuple[float, float]] = {}
        """By queue, since when its first job has been ready, and since when that has been so, as seen from here."""

    async def keep_looking(self) -> None:
        """Look now and then, until it is cancelled."""
        trouble = Trouble(
            "the queue cannot be checked for tasks that no worker runs; mcpkit tries again",
            "the queue is checked again for tasks that no worker runs",
        )
        while True:
            pause = min(_INTERVAL, self._work.patience / 2)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            try:
                await self.look()
                trouble.end()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                trouble.begin(error)

    async def look(self) -> None:
        """Give up what has not been taken for long by now.

        Raises:
            OSError: The engine does not answer.
        """
        queues = self._abandoned(await self._queue.list_queues(self._work.server))
        is_more = bool(queues)
        while is_more:
            taken = await self._queue.take(
                queues, limit=_AT_A_TIME, lease=self._lease, ready_for=self._work.patience
            )
            for job in taken.jobs:
                await self._work.give_up(job, taken.now)
            is_more = len(taken.jobs) == _AT_A_TIME

    def _abandoned(self, waiting: Iterable[QueueStats]) -> list[str]:
        """Return the queues from which nobody has taken for long."""
        now, known, before = self._clock(), set(self._work.queues()), self._still
        self._still = {}
        for each in waiting:
            if each.ready and each.queue not in known:
                began = now - each.oldest
                was, since = before.get(each.queue, (began, now))
                self._still[each.queue] = (began, since if abs(was - began) < _SLACK else now)
        return [queue for queue, (_, since) in self._still.items() if now - since >= self._work.patience]
