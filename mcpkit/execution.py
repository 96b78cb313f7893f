"""How a handler runs: a coroutine in the event loop, anything else in a worker thread."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("mcpkit")


class Threads:
    """A bounded number of daemon threads for functions that block.

    Daemons, so that a function that never returns cannot keep the process; the pools of the
    standard library are joined at exit. Threads start on demand and wait for more work.

    Args:
        limit: The greatest number of threads.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"threads must be at least 1, got {limit!r}")
        self.limit = limit
        self._work: deque[Callable[[], None]] = deque()
        self._available = threading.Condition()
        self._idle = 0
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
        context = contextvars.copy_context()

        def work() -> None:
            if future.cancelled():
                return
            try:
                outcome: Any = context.run(function, **kwargs)
                settle: Callable[[asyncio.Future[Any], Any], None] = _set_result
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                outcome, settle = error, _set_exception
            try:
                loop.call_soon_threadsafe(settle, future, outcome)
            except RuntimeError:  # the loop has been closed, and nobody waits any more
                logger.debug("a thread outlived its event loop; its outcome is dropped")

        self._submit(work)
        return await future

    def _submit(self, work: Callable[[], None]) -> None:
        with self._available:
            self._work.append(work)
            if len(self._work) > self._idle and self._started < self.limit:
                self._started += 1
                threading.Thread(target=self._serve, name=f"mcpkit-{self._started}", daemon=True).start()
            else:
                self._available.notify()

    def _serve(self) -> None:
        while True:
            with self._available:
                self._idle += 1
                while not self._work:
                    self._available.wait()
                self._idle -= 1
                work = self._work.popleft()
            work()
            del work  # what the call holds must not live until the next one


def _set_result(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # a future refuses it
        stopped = RuntimeError("the function raised StopIteration")
        stopped.__cause__ = error
        error = stopped
    future.set_exception(error)


async def finish_awaitable(value: Any) -> Any:
    """Await what a function returned, when it is something to await after all."""
    return await value if inspect.isawaitable(value) else value
