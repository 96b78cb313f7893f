"""Leases of running jobs, extended by a thread, so that a busy event loop does not lose them."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from ..execution import forks
from ..execution.coroutines import within
from ..storage.queue import Job, Queue
from .trouble import Trouble

logger = logging.getLogger(__name__)

_MARGIN = 1.0
"""Seconds before the end of a lease at which it counts as lost, before another worker can take the job."""

_WHILE_FAILING = 1.0
"""Maximum seconds until leases are extended again after a failure."""

_TIMEOUT = 5.0
"""Seconds to wait for the end of the thread."""


class Hold:
    """The lease of one running job. Its methods may be called in any thread.

    It is lost when the queue reports that another worker has the job, that it has ended, or that the lease was given
    up. It is also lost when it could not be extended in time. The queue then rejects changes with its fencing token, or
    soon will.

    Args:
        job: The job.
        until: Time at which it is lost unless it is extended, by `time.monotonic`.
        lose: Called once when it is lost, in the thread that notices.
        look: Called when the time may have changed.

    Attributes:
        key: Key of the job.
        fence: Fencing token of the lease.
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
        """Extend the lease up to a time from now, and not beyond, even if the job still runs.

        Args:
            seconds: Seconds from now; None for as long as the job runs, which is the default.
        """
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._look()

    @property
    def is_lost(self) -> bool:
        """True if another worker may have the job; always true in a forked child."""
        return self._is_told_lost or time.monotonic() >= self.lost_at or self._generation != forks.generation

    @property
    def lost_at(self) -> float:
        """Time at which it is lost unless it is extended, by `time.monotonic`."""
        return min(self._until, self._deadline)

    def may_last(self, seconds: float) -> float:
        """Return the seconds for which it may be extended, up to a maximum; 0 or less if it may not."""
        return min(seconds, self._deadline - time.monotonic())

    def prolong(self, until: float) -> None:
        """Set the time at which it is lost, by `time.monotonic`."""
        self._until = until

    def lose(self) -> None:
        """Mark it as lost."""
        with self._lock:
            if self._is_told_lost:
                return
            self._is_told_lost = True
        self._lose()


class Leases:
    """Extends the leases of the jobs of an event loop, in a thread with an event loop of its own.

    All leases are extended together, three times within the duration of one. The thread starts with the first lease.

    Args:
        queue: Queue of the jobs.
        seconds: Duration of a lease.
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
        """Extend the lease of a job from now on, until it is released.

        Args:
            job: The job.
            since: Time at which it was requested from the queue, by `time.monotonic`.
            lose: Called once if the lease is lost, in any thread.
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
        """Stop extending the lease of a job."""
        with self._lock:
            if self._holds.get(hold.key) is hold:
                del self._holds[hold.key]

    async def aclose(self) -> None:
        """Stop extending leases, and wait for the end of the thread, with a timeout."""
        self._is_closed = True
        self._look()
        if self._ended is not None:
            await asyncio.wait((asyncio.wrap_future(self._ended),), timeout=_TIMEOUT)

    def _look(self) -> None:
        """Wake the thread."""
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
        """Detect expired leases, while another task extends the rest."""
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
