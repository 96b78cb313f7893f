"""Worker threads for handlers that block; functions that stop such handlers; child processes that handlers fork.

Handlers do not run in threads of anyio or of the standard library's pools: those threads are joined at exit, so a
handler that never returns would delay the end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from .._utils.concurrency import Running, call_in_loop, running_loop
from .._utils.exceptions import BusyError, CallEndedError
from .._utils.option_checks import check_count

logger = logging.getLogger(__name__)


class Threads:
    """A bounded number of daemon threads for functions that block.

    Threads start on demand, and end after some time without work. A thread with a cancelled caller is abandoned: its
    function continues, and another thread may take its place. When the function has returned, the thread takes new work
    if there is a free place.

    Args:
        limit: Maximum number of threads, without abandoned ones.
        max_abandoned: Maximum number of abandoned threads at which new calls are accepted.

    Attributes:
        idle_timeout: Seconds without work after which a thread ends.
        abandoned: Number of abandoned threads that still run.

    Raises:
        TypeError: An argument is not an integer.
        ValueError: An argument is too small.
    """

    def __init__(self, limit: int, max_abandoned: int = 40) -> None:
        check_count("threads", limit)
        check_count("abandoned_threads", max_abandoned, least=0)
        self._limit = limit
        self._max_abandoned = max_abandoned
        self.idle_timeout = 10.0
        self._reset()

    def _reset(self) -> None:
        """Begin without threads. A forked process does not have those of its parent."""
        self._process = os.getpid()
        self.abandoned = 0
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # calls that no thread has taken yet
        self._idle = 0  # threads without a call
        self._started = 0  # threads, without abandoned ones

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
        job = _Job()
        job.future = asyncio.get_running_loop().create_future()
        job.work = partial(contextvars.copy_context().run, function, **kwargs)
        if self._process != os.getpid():
            self._reset()
        with self._lock:
            if self.abandoned > self._max_abandoned:
                raise self._refusal()
            self._waiting += 1
            needs_thread = self._waiting > self._idle and self._reserve_thread()  # most find an idle one
            self._jobs.put(job)
        if needs_thread and not self._start_thread():
            job.work = None
            raise BusyError("The system cannot start a thread for this call. Try again later")
        try:
            return await job.future
        except asyncio.CancelledError:
            self._abandon(job, running)
            raise

    def _reserve_thread(self) -> bool:
        """Return True if a thread must be started, and count it. The lock is held."""
        if self._waiting <= self._idle or self._started >= self._limit:
            return False
        self._started += 1
        self._idle += 1
        return True

    def _start_thread(self) -> bool:
        """Start the reserved thread. Return False if it cannot be started and no other thread runs."""
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

    def _abandon(self, job: _Job, running: Running | None) -> None:
        """Remove a job from the queue, or abandon the thread that runs it."""
        needs_thread = False
        with self._lock:
            job.work = None  # the job may stay in the queue for long, but not the objects of its work
            if job.is_running:
                job.abandoned = job.future.get_loop().create_future()
                self.abandoned += 1
                self._started -= 1
                if self.abandoned <= self._max_abandoned:
                    needs_thread = self._reserve_thread()
                else:
                    self._refuse_waiting()
        if job.abandoned is not None and running is not None:
            job.is_stopped = running.is_stoppable
            running.leave(job.abandoned)
        if needs_thread:
            self._start_thread()

    def _refuse_waiting(self) -> None:
        """Reject the calls that no thread has taken yet: they could get stuck as well. The lock is held."""
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                self._waiting -= 1
                if job.work is not None:
                    job.work = None
                    call_in_loop(job.future.get_loop(), _settle, job.future, None, self._refusal())

    def _refusal(self) -> BusyError:
        return BusyError(
            f"Too many worker threads ({self.abandoned}) still run functions after the end of their calls "
            f"(Limits(abandoned_threads={self._max_abandoned})). Calls that need a thread are "
            "rejected until some return"
        )

    def _serve(self) -> None:
        """Run jobs in this thread."""
        process = os.getpid()
        has_place = True
        while has_place:
            try:
                job = self._jobs.get(timeout=self.idle_timeout)
            except Empty:
                with self._lock:
                    if self._waiting == 0:  # otherwise a job is about to arrive
                        self._idle -= 1
                        self._started -= 1
                        return
                continue
            with self._lock:
                self._waiting -= 1
                self._idle -= 1
                work = job.work
                job.is_running = work is not None and not job.future.cancelled()
            value: Any = None
            error: BaseException | None = None
            if work is not None and job.is_running:
                try:
                    value = work()
                except BaseException as raised:  # noqa: BLE001 - handed to the caller
                    error = raised
                if os.getpid() != process:
                    end_child(error)
            with self._lock:  # before the caller is notified, because it may have the next call ready
                job.is_running = False
                if job.abandoned is not None:
                    self.abandoned -= 1
                    has_place = self._started < self._limit
                    self._started += has_place
                self._idle += has_place
            future = job.future
            if job.abandoned is not None:
                if error is not None:
                    log_late("a function in a worker thread", error, is_expected=job.is_stopped)
                future, value, error = job.abandoned, None, None
            try:
                future.get_loop().call_soon_threadsafe(_settle, future, value, error)
            except RuntimeError:  # the loop has been closed, so no task waits any more
                logger.debug("a thread ended after its event loop; its result is discarded")
            del job, work, future, value, error  # the objects of a call must not live until the next one


class _Job:
    """A call to run in a thread.

    Attributes:
        future: Future of the caller.
        work: The function; None if the caller was cancelled before it ran.
        is_running: Whether a thread runs the function.
        is_stopped: Whether stop functions of the handler were called.
        abandoned: Done when the function has returned after its thread was abandoned; None if it was not.
    """

    future: asyncio.Future[Any]
    work: partial[Any] | None
    is_running = False
    is_stopped = False
    abandoned: asyncio.Future[None] | None = None


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(loop_safe_error(error))


# Stopping a handler in its thread


class StopCallback:
    """A function of a handler that stops it after its call was cancelled, as Python cannot stop a thread.

    As a context manager, it is registered until the end of the block.

    Args:
        function: The function. It is called at most once, in a thread of its own.
        method: The method of the request, for the log.
    """

    def __init__(self, function: Callable[[], Any], method: str) -> None:
        self._function: Callable[[], Any] | None = function
        self._method = method
        self._lock = threading.RLock()

    @property
    def is_registered(self) -> bool:
        """True if the function may still be called."""
        return self._function is not None

    def __enter__(self) -> None:
        """Do nothing: the function is registered already."""

    def __exit__(self, *_: object) -> None:
        """Unregister the function."""
        self.unregister()

    def unregister(self) -> None:
        """Unregister the function. If it is being called now, wait until it has returned."""
        with self._lock:
            self._function = None

    def call(self) -> None:
        """Call the function, unless it has been called or unregistered. An exception is logged."""
        with self._lock:
            function, self._function = self._function, None
            if function is None:
                return
            try:
                function()
            except Exception:
                logger.warning(
                    "a function of on_cancel= raised while %s was cancelled. Its handler may still run in its thread",
                    self._method,
                    exc_info=True,
                )


def call_stop_callbacks(callbacks: Iterable[StopCallback]) -> None:
    """Call stop functions in a thread of their own, the latest first: they may block on a lock of the handler."""

    def call() -> None:
        for callback in reversed(list(callbacks)):
            callback.call()

    threading.Thread(target=call, name="mcpkit-stop", daemon=True).start()


# Exceptions of functions


def is_fatal(error: BaseException) -> bool:
    """Return True if an exception ends the task of a request, and does not become its response.

    Those are an interrupt by the user, and the end of a coroutine after its event loop has gone.
    """
    if isinstance(error, GeneratorExit):  # a function may raise it as well
        return running_loop() is None
    return isinstance(error, KeyboardInterrupt)


def loop_safe_error(error: BaseException) -> BaseException:
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
    seen: set[int] = set()
    cause: BaseException | None = error
    while not is_expected and cause is not None and id(cause) not in seen:
        is_expected = isinstance(cause, CallEndedError)
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    if is_expected:
        logger.debug(
            "%s stopped after its call had ended. Nothing needs to be done", function, exc_info=error
        )
    else:
        logger.warning(
            "%s failed after its call had ended. The client does not receive this exception",
            function,
            exc_info=error,
        )


# Child processes that a handler forks


class _Forks:
    """Counter of the forks in threads of event loops; a request of an earlier generation belongs to a parent."""

    def __init__(self) -> None:
        self.generation = 0
        self._is_in_loop = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_child=self._after_in_child)

    def _before(self) -> None:
        self._is_in_loop = running_loop() is not None

    def _after_in_child(self) -> None:
        self.generation += self._is_in_loop


forks = _Forks()


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, a child that a function has forked, as the interpreter would. It sends no response.

    Args:
        error: Exception of the function in the child, or None.
    """
    status = 0
    with suppress(BaseException):
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            if status == 1 and error.code != 1:
                print(error.code, file=sys.stderr)
        elif error is not None:
            status = 1
            traceback.print_exception(type(error), error, error.__traceback__)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    os._exit(status & 0xFF)
