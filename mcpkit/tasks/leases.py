"""The leases of jobs that run here: prolonged by a thread of its own, whatever the event loop is busy with."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from ..calls.coroutines import within
from ..calls.workers import forks
from ..state.queue import Job, Queue
from .trouble import Trouble

logger = logging.getLogger(__name__)

_MARGIN = 1.0
"""Seconds before the end of a lease at which it is given up at the latest, before another worker can get the job."""

_WHILE_FAILING = 1.0
"""Seconds after which it is tried again at the latest to prolong leases, where that has failed."""

_PATIENCE = 5.0
"""Seconds for which the end of the thread is waited for."""


class Hold:
    """The lease of one job while it is worked on; from any thread.

    It is lost where the queue says that somebody else has the job, or that it has ended or was given up; and where it
    could not be prolonged or may be no longer, before others can take it. Then whatever is written under its fence is
    refused, or soon will be.

    Args:
        job: What was taken.
        until: When it is lost unless it is prolonged, by `time.monotonic`.
        lose: Called once when it is lost, in the thread that notices.
        look: Called when it may be lost earlier or later than was known.

    Attributes:
        key: That of the job.
        fence: Under which it was taken.
    """

    def __init__(self, job: Job, until: float, lose: Callable[[], None], look: Callable[[], None]) -> None:
        self.key = job.key
        self.fence = job.fence
        self._until = until
        self._deadline = math.inf
        self._lose = lose
        self._look = look
        self._lock = threading.Lock()
        self._is_told_lost = False
        self._generation = forks.generation

    def until(self, seconds: float | None) -> None:
        """Have it prolonged for so many seconds from now and no longer, whatever still runs then.

        Args:
            seconds: From now; None for as long as it is worked on, as at the beginning.
        """
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._look()

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may have the job by now; in a forked child, always."""
        return self._is_told_lost or time.monotonic() >= self.lost_at or self._generation != forks.generation

    @property
    def lost_at(self) -> float:
        """When it is lost unless it is prolonged, by `time.monotonic`."""
        return min(self._until, self._deadline)

    def may_last(self, seconds: float) -> float:
        """Return for how many seconds from now it may be prolonged, of so many at most; 0 or less for not at all."""
        return min(seconds, self._deadline - time.monotonic())

    def prolong(self, until: float) -> None:
        """Take it as lost at another time, by `time.monotonic`."""
        self._until = until

    def lose(self) -> None:
        """Take it as lost."""
        with self._lock:
            if self._is_told_lost:
                return
            self._is_told_lost = True
        self._lose()


class Leases:
    """Prolongs the leases of the jobs that run in an event loop, from a thread with an event loop of its own.

    All of them are prolonged at once, three times in the time of one. The thread begins with the first of them.

    Args:
        queue: Where the jobs are from.
        seconds: For how long each lease is.
    """

    def __init__(self, queue: Queue, seconds: float) -> None:
        self._queue = queue
        self._seconds = seconds
        self._margin = min(seconds / 10, _MARGIN)
        self._holds: dict[str, Hold] = {}
        self._lock = threading.Lock()
        self._ended: Future[None] | None = None  # of the thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self._is_closed = False
        self._trouble = Trouble(
            "the leases of running tasks cannot be renewed; mcpkit tries again",
            "the leases of running tasks are renewed again",
        )

    def hold(self, job: Job, since: float, lose: Callable[[], None]) -> Hold:
        """Prolong the lease of a job from now on, until it is released.

        Args:
            job: What was taken.
            since: When the queue was asked for it, by `time.monotonic`.
            lose: Called once if it is lost, in any thread.
        """
        hold = Hold(job, since + self._seconds - self._margin, lose, self._look)
        with self._lock:
            before = self._holds.get(job.key)
            self._holds[job.key] = hold
        if before is not None:  # it was lost, and has come here again before that was known
            before.lose()
        if self._ended is None:
            self._ended = Future()
            threading.Thread(target=self._run, args=(self._ended,), name="mcpkit-leases", daemon=True).start()
        self._look()
        return hold

    def release(self, hold: Hold) -> None:
        """Prolong the lease of a job no more."""
        with self._lock:
            if self._holds.get(hold.key) is hold:
                del self._holds[hold.key]

    async def aclose(self) -> None:
        """Prolong none any more, and wait until the thread has ended, for some seconds at most."""
        self._is_closed = True
        self._look()
        if self._ended is not None:
            await asyncio.wait((asyncio.wrap_future(self._ended),), timeout=_PATIENCE)

    def _look(self) -> None:
        """Have the thread look at what there is now."""
        loop, changed = self._loop, self._changed
        if loop is not None and changed is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(changed.set)

    # In the thread

    def _run(self, ended: Future[None]) -> None:
        try:
            asyncio.run(self._watch())
        finally:
            ended.set_result(None)

    async def _watch(self) -> None:
        """Notice what is lost because its time is over, while another task prolongs the rest."""
        changed = self._changed = asyncio.Event()
        loop = self._loop = asyncio.get_running_loop()
        prolonging = asyncio.create_task(self._keep_prolonging())
        while not self._is_closed:
            changed.clear()
            with self._lock:
                holds = tuple(self._holds.values())
            for hold in holds:
                if hold.is_lost:
                    logger.warning(
                        "the lease of task %s expired before it was renewed; this run is cancelled, and "
                        "another process may run the task",
                        hold.key,
                    )
                    self._lose(hold)
            lost_at = min((hold.lost_at for hold in holds if not hold.is_lost), default=math.inf)
            timer = loop.call_later(max(0.0, lost_at - time.monotonic()), changed.set)
            await changed.wait()
            timer.cancel()
        prolonging.cancel()
        await asyncio.wait((prolonging,))

    async def _keep_prolonging(self) -> None:
        interval = self._seconds / 3
        while not self._is_closed:
            await asyncio.sleep(min(interval / 4, _WHILE_FAILING) if self._trouble.count else interval)
            with self._lock:
                holds = dict(self._holds)
            leases = {
                key: (hold.fence, seconds)
                for key, hold in holds.items()
                if (seconds := hold.may_last(self._seconds)) > 0
            }
            if not leases:
                continue
            since = time.monotonic()
            try:
                lost = await within(interval, self._queue.renew(leases))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                self._trouble.begin(error)
                continue
            self._trouble.end()
            for key, (_, seconds) in leases.items():
                hold = holds[key]
                if key in lost or hold.is_lost:
                    self._lose(hold)
                else:  # what has a deadline has it to the end: others get it later, by the time of the way there
                    hold.prolong(since + seconds - (self._margin if seconds == self._seconds else 0.0))

    def _lose(self, hold: Hold) -> None:
        self.release(hold)
        hold.lose()
