"""Deduplication of concurrent work across event loops and threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class AbandonedError(Exception):
    """The event loop of the work ended before the work was done."""


class OneAtATime(Generic[T]):
    """Runs work once for all concurrent callers with the same key. All of them get its result.

    The work runs in a task of the event loop of the first caller, and continues if callers stop waiting.

    Args:
        patience: Seconds for which callers wait. After that the work counts as lost with its event loop.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[T]] = {}
        self._tasks: dict[asyncio.Task[None], tuple[Hashable, Future[T]]] = {}

    async def wait(self, key: Hashable, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Return the result of the work, starting it if it is not running.

        Args:
            key: Key of the work.
            work: Does the work.

        Raises:
            Exception: The exception of the work.
        """
        try:
            return await self.outcome(key, self.begin(key, work))
        except AbandonedError:  # by an event loop that has ended; this one has not
            return await self.outcome(key, self.begin(key, work))

    async def outcome(self, key: Hashable, future: Future[T]) -> T:
        """Return the result of work that has been started.

        Raises:
            AbandonedError: The work was lost with its event loop.
            Exception: The exception of the work.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._patience)
        except asyncio.TimeoutError:
            if future.done():
                return future.result()
            self._give_up(key, future)
            raise AbandonedError from None

    def doing(self, key: Hashable) -> Future[T] | None:
        """Return the future of running work; None if it is not running."""
        return self._running.get(key)

    def begin(self, key: Hashable, work: Callable[[], Coroutine[object, None, T]]) -> Future[T]:
        """Start the work unless it is running, and return its future."""
        with self._lock:
            future = self._running.get(key)
            if future is None:
                future = self._running[key] = Future()
                future.set_running_or_notify_cancel()  # so that nobody who no longer waits can cancel it for others
                task = asyncio.get_running_loop().create_task(self._do(key, future, work))
                self._tasks[task] = (key, future)
                task.add_done_callback(self._ended)
        return future

    async def aclose(self, grace: float = 0.0) -> None:
        """Cancel the work in the running event loop.

        Args:
            grace: Seconds for which the work may finish first.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            tasks = [task for task in self._tasks if task.get_loop() is loop]
        if tasks and grace:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _do(
        self, key: Hashable, future: Future[T], work: Callable[[], Coroutine[object, None, T]]
    ) -> None:
        try:
            result = await work()
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            self._forget(key, future)
            with suppress(InvalidStateError):  # given up meanwhile
                future.set_exception(error)
        else:
            self._forget(key, future)
            with suppress(InvalidStateError):
                future.set_result(result)

    def _ended(self, task: asyncio.Task[None]) -> None:
        with self._lock:
            key, future = self._tasks.pop(task)
        self._give_up(key, future)

    def _give_up(self, key: Hashable, future: Future[T]) -> None:
        self._forget(key, future)
        with suppress(InvalidStateError):  # it has been done
            future.set_exception(AbandonedError())

    def _forget(self, key: Hashable, future: Future[T]) -> None:
        with self._lock:
            if self._running.get(key) is future:
                del self._running[key]
