"""What several ask for at once, in whichever event loop and thread, is done once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class AbandonedError(Exception):
    """The event loop in which something was done has ended before it was done."""


class OneAtATime(Generic[T]):
    """Does something once for all who ask while it is being done; they all get what comes of it.

    It runs in a task of its own in the event loop of whoever asks first, and goes on when they no longer wait.

    Args:
        patience: Seconds for which others wait for it; then it is taken for lost with its event loop.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[T]] = {}
        self._tasks: dict[asyncio.Task[None], tuple[Hashable, Future[T]]] = {}

    async def wait(self, key: Hashable, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Return what comes of something, which is begun where it is not being done.

        Args:
            key: What it is.
            work: Does it.

        Raises:
            Exception: Whatever it raises.
        """
        try:
            return await self.outcome(key, self.begin(key, work))
        except AbandonedError:  # by an event loop that has ended; this one has not
            return await self.outcome(key, self.begin(key, work))

    async def outcome(self, key: Hashable, future: Future[T]) -> T:
        """Return what comes of something that has been begun.

        Raises:
            AbandonedError: It has been lost with the event loop that it ran in.
            Exception: Whatever it raises.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._patience)
        except asyncio.TimeoutError:
            if future.done():
                return future.result()
            self._give_up(key, future)
            raise AbandonedError from None

    def doing(self, key: Hashable) -> Future[T] | None:
        """Return what something will come to that is being done; None where it is not."""
        return self._running.get(key)

    def begin(self, key: Hashable, work: Callable[[], Coroutine[object, None, T]]) -> Future[T]:
        """Begin something, unless it is being done; what it comes to is the future's."""
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
        """End what is being done in the running event loop.

        Args:
            grace: Seconds in which it may come to its end.
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
