"""How runs of tasks are told to what measures, and how it sees what waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from time import perf_counter

from ..calls.runtime import Runtime
from ..state.queue import Queue, QueueStats
from .pen import LostError, Pen
from .runner import DRAINED

_PATIENCE = 2.0
"""Seconds for which a measurement waits for the storage."""


class Measured:
    """One run, from its beginning on; told as it ends: `with Measured(...) as run:`.

    Args:
        runtime: What it runs with.
        pen: What writes for it.

    Attributes:
        outcome: What the run has come to; None for what its record says.
    """

    def __init__(self, runtime: Runtime, pen: Pen) -> None:
        self.outcome: str | None = None
        self._meters = runtime.task_meters
        self._pen = pen
        self._waited = max(0.0, pen.now() - pen.record.updated)

    def __enter__(self) -> Measured:
        """Tell that it begins."""
        self._began = perf_counter()
        for each in self._meters:
            each.run_began(self._pen.record.tool, self._waited)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Tell that it has ended."""
        record = self._pen.record
        outcome = self.outcome or record.status
        if isinstance(error, asyncio.CancelledError):
            outcome = "drained" if DRAINED in error.args else "lost"
        elif error is not None:
            outcome = "lost" if isinstance(error, LostError) else "failed"
        for each in self._meters:
            each.run_ended(record.tool, outcome, self._pen.fence, perf_counter() - self._began)


class Watched:
    """What waits in the queues of a server, for who asks in any thread, an event loop's own included.

    Args:
        queue: The queue.
        server: The server, as queues have it.
        tool_of: Returns the tool that a queue is for.
    """

    def __init__(self, queue: Queue, server: str, tool_of: Callable[[str], str]) -> None:
        self._queue = queue
        self._server = server
        self._tool_of = tool_of

    def waiting(self) -> Sequence[tuple[str, QueueStats]]:
        """Return what waits, by the names of the tools; nothing where the engine does not answer."""
        found: list[QueueStats] = []

        def look() -> None:
            try:
                found.extend(asyncio.run(asyncio.wait_for(self._queue.list_queues(self._server), _PATIENCE)))
            except (OSError, asyncio.TimeoutError):
                return

        looking = threading.Thread(target=look, name="mcpkit-measuring", daemon=True)
        looking.start()
        looking.join()
        return [(self._tool_of(each.queue), each) for each in found]
