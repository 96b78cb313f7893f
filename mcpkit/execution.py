"""How a handler runs: a coroutine in the event loop, anything else in a worker thread."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

FATAL: Final = (KeyboardInterrupt, GeneratorExit)
"""What goes on through a request instead of becoming its answer."""

logger = logging.getLogger("mcpkit")


class Threads:
    """A bounded number of daemon threads for functions that block.

    Daemons, so that a function that never returns cannot keep the process; the pools of the
    standard library are joined at exit. Threads start on demand and wait a while for more work.

    Args:
        limit: The greatest number of threads.

    Attributes:
        keep: Seconds for which a thread waits for another call before it ends.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"threads must be at least 1, got {limit!r}")
        self.limit = limit
        self.keep = 10.0
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # calls that no thread has taken yet
        self._idle = 0  # threads that have no call
        self._started = 0

    async def run(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        """Call `function` in a thread, with the caller's context variables.

        Returns:
            What it returns. When the caller is cancelled it is free at once: the thread goes on
            alone, and what it returns is dropped.

        Raises:
            BaseException: Whatever the function raises.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            self._waiting += 1
            is_thread_wanted = self._waiting > self._idle and self._started < self.limit
            if is_thread_wanted:
                self._started += 1
                self._idle += 1
        job = _Job(loop, future, partial(contextvars.copy_context().run, function, **kwargs))
        self._jobs.put(job)
        if is_thread_wanted:
            threading.Thread(target=self._serve, name=f"mcpkit-{self._started}", daemon=True).start()
        try:
            return await future
        except asyncio.CancelledError:
            job.call = None  # it may stay in the queue for long, but not what it holds
            raise

    def _may_end(self) -> bool:
        with self._lock:
            if self._waiting:  # a call is on its way here
                return False
            self._idle -= 1
            self._started -= 1
            return True

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self.keep)
            except Empty:
                if self._may_end():
                    return
                continue
            with self._lock:
                self._waiting -= 1
                self._idle -= 1
            call = job.call
            if call is not None and not job.future.cancelled():
                settle: Callable[[asyncio.Future[Any], Any], None] = _set_result
                try:
                    outcome: Any = call()
                except BaseException as error:  # noqa: BLE001 - handed to the caller
                    outcome, settle = error, _set_exception
                with self._lock:  # before the caller hears of it, who may have the next call ready
                    self._idle += 1
                try:
                    job.loop.call_soon_threadsafe(settle, job.future, outcome)
                except RuntimeError:  # the loop has been closed, and nobody waits any more
                    logger.debug("a thread outlived its event loop; its outcome is dropped")
                del outcome
            else:
                with self._lock:
                    self._idle += 1
            del job, call  # what a call holds must not live until the next one


class _Job:
    """A call to be made in a thread, and who waits for it; no call when nobody does any more."""

    __slots__ = ("call", "future", "loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], call: Callable[[], Any]
    ) -> None:
        self.loop = loop
        self.future = future
        self.call: Callable[[], Any] | None = call


def _set_result(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    # A future refuses the one; no signal can have brought the others.
    if isinstance(error, (StopIteration, *FATAL)):
        wrapped = RuntimeError(f"the function raised {type(error).__name__}")
        wrapped.__cause__ = error
        error = wrapped
    future.set_exception(error)


async def finish_awaitable(value: Any) -> Any:
    """Await what a function returned, when it is something to await after all."""
    return await value if inspect.isawaitable(value) else value
