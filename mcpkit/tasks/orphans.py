"""Ends jobs of queues that no worker serves any more."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ..storage.queue import Job, Queue, QueueStats
from .trouble import Trouble

_INTERVAL = 30.0
"""Seconds between two checks."""

_AT_A_TIME = 16

_SLACK = 1.0
"""Tolerance in seconds between two readings of the time since when the first job of a queue is ready."""


class Giving(Protocol):
    """Knows the queues that this process serves, and ends abandoned jobs."""

    @property
    def server(self) -> str:
        """Name of the server: the text before the first `/` of its queue names."""
        ...

    @property
    def patience(self) -> float:
        """Seconds after which the jobs of a queue that is unknown here, and that no worker serves, are ended."""
        ...

    def queues(self) -> Sequence[str]:
        """Return the queues that this process serves now."""
        ...

    async def give_up(self, job: Job, now: float) -> None:
        """End an abandoned job.

        Args:
            job: The job, leased for this purpose; the lease is not extended.
            now: Time of the queue's clock at that moment.
        """
        ...


class Orphans:
    """Ends jobs of queues that no worker has served for long and that this process does not know.

    A queue counts as served if its first job was taken meanwhile, however long the others have waited.

    Args:
        queue: Queue of the jobs.
        work: Ends them.
        lease: Duration of the lease in seconds.
        clock: Returns the time in seconds, from any start.
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
        """Check now and then, until cancelled."""
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
        """End jobs that were not taken for long.

        Raises:
            OSError: The storage does not answer.
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
        """Return the queues that no worker has served for long."""
        now, known, before = self._clock(), set(self._work.queues()), self._still
        self._still = {}
        for each in waiting:
            if each.ready and each.queue not in known:
                began = now - each.oldest
                was, since = before.get(each.queue, (began, now))
                self._still[each.queue] = (began, since if abs(was - began) < _SLACK else now)
        return [queue for queue, (_, since) in self._still.items() if now - since >= self._work.patience]
