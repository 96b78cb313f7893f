"""Measurements of task runs and of their queues, for meters."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from time import perf_counter

from ..requests.runtime import Runtime
from ..storage.queue import Queue, QueueStats
from .pen import LostError, Pen
from .runner import DRAINED

_TIMEOUT = 2.0
"""Seconds for which a measurement waits for the storage."""


class Measured:
    """Measures one run, as a context manager.

    Args:
        runtime: Runtime of the server.
        pen: Writer of the task record.

    Attributes:
        outcome: Outcome of the run; None for the status of the record.
    """

    def __init__(self, runtime: Runtime, pen: Pen) -> None:
        self.outcome: str | None = None
        self._meters = runtime.task_meters
        self._pen = pen
        self._waited = max(0.0, pen.now() - pen.record.updated)

    def __enter__(self) -> Measured:
        """Report the start."""
        self._began = perf_counter()
        for each in self._meters:
            each.run_began(self._pen.record.tool, self._waited)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Report the end."""
        record = self._pen.record
        outcome = self.outcome or record.status
        if isinstance(error, asyncio.CancelledError):
            outcome = "drained" if DRAINED in error.args else "lost"
        elif error is not None:
            outcome = "lost" if isinstance(error, LostError) else "failed"
        for each in self._meters:
            each.run_ended(record.tool, outcome, self._pen.fence, perf_counter() - self._began)


class Watched:
    """Statistics of a server's queues, for callers in any thread, also in that of an event loop.

    Args:
        queue: The queue.
        server: Name of the server in the queue names.
        tool_of: Returns the name of the tool of a queue.
    """

    def __init__(self, queue: Queue, server: str, tool_of: Callable[[str], str]) -> None:
        self._queue = queue
        self._server = server
        self._tool_of = tool_of

    def waiting(self) -> Sequence[tuple[str, QueueStats]]:
        """Return statistics with the names of the tools; empty if the storage does not answer."""
        found: list[QueueStats] = []

        def look() -> None:
            try:
                found.extend(asyncio.run(asyncio.wait_for(self._queue.list_queues(self._server), _TIMEOUT)))
            except (OSError, asyncio.TimeoutError):
                return

        looking = threading.Thread(target=look, name="mcpkit-measuring", daemon=True)
        looking.start()
        looking.join()
        return [(self._tool_of(each.queue), each) for each in found]
