"""Execution of handlers: coroutines in the event loop, other functions in worker threads."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from .._utils.current import Running, running_loop
from .._utils.errors import BusyError, CallEndedError
from .._utils.numbers import check_count
from .forks import end_child

logger = logging.getLogger(__name__)


class Threads:
    """A bounded number of daemon threads for functions that block.

    They are daemon threads so that a function that never returns cannot keep the process alive: Python joins the
    threads of the standard library's pools at exit. Threads start on demand, and end after some time without work.

    A thread whose caller is cancelled is abandoned: its function runs on, and another thread may take its place. When
    the function has returned, the thread takes new work if there is a free place.

    Args:
        limit: Maximum number of threads, without abandoned ones.
        stuck: Maximum number of abandoned threads at which new calls are accepted.

    Attributes:
        keep: Seconds without work after which a thread ends.
        given_up: Number of abandoned threads that still run.

    Raises:
        TypeError: An argument is not an integer.
        ValueError: An argument is too small.
    """

    def __init__(self, limit: int, stuck: int = 40) -> None:
        check_count("threads", limit)
        check_count("abandoned_threads", stuck, least=0)
        self.limit = limit
        self.stuck = stuck
        self.keep = 10.0
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Begin without threads, as also a process does that was forked from one that had some."""
        self._process = os.getpid()
        self.given_up = 0
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # calls that no thread has taken yet
        self._idle = 0  # threads that have no call
        self._started = 0  # without those given up

    async def run(
        self, function: Callable[..., Any], kwargs: dict[str, Any], running: Running | None = None
    ) -> Any:
        """Call `function` in a thread, with the caller's context variables.

        Args:
            function: Any function.
            kwargs: Its arguments.
            running: The request that it serves, which is notified when its thread is abandoned.

        Returns:
            The return value. A cancelled caller continues at once. Then the thread runs on, its return value is
            discarded, and its exception logged.

        Raises:
            BusyError: Too many abandoned threads still run, or the system cannot start a thread.
            BaseException: The exception of the function.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._process != os.getpid():
            self._begin_anew()
        with self._lock:
            if self.given_up > self.stuck:
                raise self._stuck()
            self._waiting += 1
            is_thread_wanted = self._take_place()
            job = _Job(future, partial(contextvars.copy_context().run, function, **kwargs))
            self._jobs.put(job)
        if is_thread_wanted and not self._begin():
            job.work = None
            raise BusyError("The system cannot start a thread for this call. Try again later")
        try:
            return await future
        except asyncio.CancelledError:
            self._give_up(job, running)
            raise

    def _take_place(self) -> bool:
        """Reserve a place for one more thread, with the lock held. Return False if there is none or no work for it."""
        if self._waiting <= self._idle or self._started >= self.limit:
            return False
        self._started += 1
        self._idle += 1
        return True

    def _begin(self) -> bool:
        """Start a thread in its reserved place. Return False if no thread runs."""
        try:
            threading.Thread(target=self._serve, name=f"mcpkit-{self._started}", daemon=True).start()
        except RuntimeError as error:
            logger.warning(
                "a worker thread could not be started: %s. Calls wait for a running thread, or are refused without one",
                error,
            )
            with self._lock:
                self._started -= 1
                self._idle -= 1
                return self._started > 0
        return True

    def _give_up(self, job: _Job, running: Running | None) -> None:
        is_thread_wanted = False
        with self._lock:
            job.work = None  # it may stay in the queue for long, but not what it holds
            if job.is_running:
                job.left = job.future.get_loop().create_future()
                self.given_up += 1
                self._started -= 1
                if self.given_up > self.stuck:
                    self._refuse_waiting()
                else:
                    is_thread_wanted = self._take_place()
        if job.left is not None and running is not None:
            job.is_stopped = running.is_stoppable
            running.leave(job.left)
        if is_thread_wanted:
            self._begin()

    def _stuck(self) -> BusyError:
        return BusyError(
            f"Too many worker threads ({self.given_up}) still run functions after the end of their calls "
            f"(Limits(abandoned_threads={self.stuck})). Calls that need a thread are rejected until some return"
        )

    def _refuse_waiting(self) -> None:
        """Reject the calls that no thread has taken yet, with the lock held: they could get stuck as well."""
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                self._waiting -= 1
                if job.work is not None:
                    job.work = None
                    _notify(job.future, None, self._stuck())

    def _may_end(self) -> bool:
        with self._lock:
            if self._waiting:  # a call is on its way here
                return False
            self._idle -= 1
            self._started -= 1
            return True

    def _serve(self) -> None:
        process = os.getpid()
        has_place = True
        while has_place:
            try:
                job = self._jobs.get(timeout=self.keep)
            except Empty:
                if self._may_end():
                    return
                continue
            with self._lock:
                self._waiting -= 1
                self._idle -= 1
                work = job.work
                job.is_running = work is not None and not job.future.cancelled()
            outcome: Any = None
            error: BaseException | None = None
            if work is not None and job.is_running:
                try:
                    outcome = work()
                except BaseException as raised:  # noqa: BLE001 - handed to the caller
                    error = raised
                if os.getpid() != process:
                    end_child(error)
            with self._lock:  # before the caller hears of it, who may have the next call ready
                has_place = self._return(job)
            if job.left is None:
                _notify(job.future, outcome, error)
            else:
                if error is not None:
                    log_late("a function in a worker thread", error, is_expected=job.is_stopped)
                _notify(job.left)
            del job, work, outcome, error  # what a call holds must not live until the next one

    def _return(self, job: _Job) -> bool:
        """Record the end of a call, with the lock held. Return True if its thread may take another call."""
        job.is_running = False
        if job.left is not None:
            self.given_up -= 1
            if self._started >= self.limit:
                return False
            self._started += 1
        self._idle += 1
        return True


class _Job:
    """A call to run in a thread, and the future of its caller; `work` is None if the caller was cancelled."""

    __slots__ = ("future", "is_running", "is_stopped", "left", "work")

    def __init__(self, future: asyncio.Future[Any], work: partial[Any]) -> None:
        self.future = future
        self.work: partial[Any] | None = work
        self.is_running = False
        self.is_stopped = False  # by what its function has said
        self.left: asyncio.Future[None] | None = None
        """Done when the function has returned though it was given up; None when it was not."""


def _notify(future: asyncio.Future[Any], outcome: Any = None, error: BaseException | None = None) -> None:
    try:
        future.get_loop().call_soon_threadsafe(_settle, future, outcome, error)
    except RuntimeError:  # the loop has been closed, and nobody waits any more
        logger.debug("a thread ended after its event loop; its result is discarded")


def _settle(future: asyncio.Future[Any], outcome: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(outcome)
    else:
        future.set_exception(of_a_function(error))


def is_fatal(error: BaseException) -> bool:
    """Return True if an exception ends the task of a request, and does not become its response.

    Those are an interrupt by the user, and the end of a coroutine after its event loop has gone.
    """
    if isinstance(error, GeneratorExit):  # a function may raise it as well
        return running_loop() is None
    return isinstance(error, KeyboardInterrupt)


def of_a_function(error: BaseException) -> BaseException:
    """Return a form of a function's exception that ends its call, and not the event loop."""
    # No coroutine may raise the first, and no signal can have brought the second.
    if isinstance(error, (StopIteration, KeyboardInterrupt, GeneratorExit)):
        wrapped = RuntimeError(f"the function raised {type(error).__name__}")
        wrapped.__cause__ = error
        return wrapped
    return error


def log_late(function: str, error: BaseException, *, is_expected: bool = False) -> None:
    """Log an exception after the end of its call: as a warning, unless it is a consequence of that end.

    Args:
        function: Name of the function or task, for the message.
        error: The exception.
        is_expected: Whether it was stopped.
    """
    if is_expected or _is_about_the_end(error):
        logger.debug(
            "%s stopped after its call had ended. Nothing needs to be done", function, exc_info=error
        )
    else:
        logger.warning(
            "%s failed after its call had ended. The client does not receive this exception",
            function,
            exc_info=error,
        )


def _is_about_the_end(error: BaseException | None) -> bool:
    """Return True if an exception, or a cause of it, is `CallEndedError`."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, CallEndedError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


async def finish_awaitable(value: Any) -> Any:
    """Return a value, or the result of awaiting it if it is awaitable."""
    return await value if inspect.isawaitable(value) else value
