"""Event loops, the running request, listeners, and operations that continue when their caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar

from .exceptions import CallEndedError

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


# The running request


class Running:
    """A running request. Its caller may stop waiting for it.

    Attributes:
        method: The method of the request.
        is_ended: Whether it has been answered or cancelled.
        is_timed_out: Whether its timeout has ended.
        left: Done when the abandoned worker thread of the request has ended; None if there is none.
    """

    __slots__ = ("is_ended", "is_timed_out", "left", "method")

    def __init__(self, method: str) -> None:
        self.method = method
        self.is_ended = False
        self.is_timed_out = False
        self.left: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """True if no caller waits for the result any more: the request was cancelled, or its timeout has ended."""
        return self.is_ended or self.is_timed_out

    def check_open(self) -> None:
        """Raise an error if no caller waits for the result any more.

        Raises:
            CallEndedError: The request has ended.
        """
        if self.is_ended or self.is_timed_out:
            raise CallEndedError(self.method)

    @property
    def is_stoppable(self) -> bool:
        """True if the handler has registered a stop function."""
        return False

    def leave(self, left: asyncio.Future[None]) -> None:
        """Record that the worker thread runs on until `left` is done, and call the registered stop functions."""
        self.left = left


# The request that is being served, known to all that runs for it; not set elsewhere, as in a worker process.
current: Final[ContextVar[Running]] = ContextVar("mcpkit.requests.request_record")


# Event loops


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop of this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    """Call a function soon in an event loop, from any thread; do nothing if the loop has been closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def require_loop(what: str, instead: str = "") -> asyncio.AbstractEventLoop:
    """Return the running asyncio event loop of this thread.

    Args:
        what: The call that needs it, for the message.
        instead: An alternative that needs none, for the message.

    Raises:
        RuntimeError: None is running; the message contains the correction.
    """
    loop = running_loop()
    if loop is not None:
        return loop
    if _is_trio_running():
        raise RuntimeError(
            f"{what} needs an asyncio event loop, and this is a trio loop. Start the program with asyncio.run(main()), "
            f"in tests with anyio's pytest plugin let the fixture anyio_backend return 'asyncio'{instead and ', '}"
            f"{instead}"
        )
    raise RuntimeError(
        f"{what} needs an asyncio event loop, and none runs in this thread. Call it from asyncio.run(main()). In a "
        "process that was forked within a loop, start another process instead, for example with the 'spawn' "
        "method of multiprocessing"
    )


def refuse_loop(what: str, instead: str) -> None:
    """Check that no event loop is running in this thread, which a blocking function would block.

    Args:
        what: The function, for the message.
        instead: The alternative in an asyncio event loop.

    Raises:
        RuntimeError: An event loop of asyncio or trio is running.
    """
    if running_loop() is not None:
        raise RuntimeError(f"{what}, and an event loop is running in this thread: {instead}")
    if _is_trio_running():
        raise RuntimeError(
            f"{what}, and a trio loop runs in this thread, which it would block. Call it in a thread with "
            "`await trio.to_thread.run_sync(function)`, or from code that is not async"
        )


def _is_trio_running() -> bool:
    lowlevel: Any = getattr(sys.modules.get("trio"), "lowlevel", None)
    if lowlevel is None:
        return False
    try:
        lowlevel.current_task()
    except RuntimeError:
        return False
    return True


class LoopAffinity:
    """The event loop and the process that an open object belongs to.

    Args:
        what: Name of the object for messages, such as "the client".
        instead: Correction for use in another event loop.
    """

    __slots__ = ("_instead", "_loop", "_process", "_what")

    def __init__(self, what: str, instead: str) -> None:
        self._what = what
        self._instead = instead
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def bind(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Set the event loop, in this process; None after the object was closed."""
        self._loop = loop
        self._process = os.getpid()

    @property
    def is_lost(self) -> bool:
        """True if the object is unusable: its event loop was closed, or this process was forked since."""
        return self._loop is not None and (self._process != os.getpid() or self._loop.is_closed())

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return its event loop, which must be running here.

        Raises:
            RuntimeError: It is not.
        """
        loop = running_loop()
        if loop is None or loop is not self._loop:
            self.check()
            return require_loop(self._what)
        return loop

    def check(self, *, is_leaving: bool = False) -> None:
        """Check that its event loop is running here, if it has one.

        Args:
            is_leaving: Whether the object is being closed, which is possible if it is lost.

        Raises:
            RuntimeError: It is not running here; the message contains the correction.
        """
        if self._loop is None or running_loop() is self._loop or (is_leaving and self.is_lost):
            return
        if self._process != os.getpid():
            raise RuntimeError(
                f"{self._what} was opened by the parent process before a fork, and only works there. "
                "Create another one in this process"
            )
        if self.is_lost:
            raise RuntimeError(
                f"{self._what} was opened in an event loop that is closed by now. Create another one, and open, "
                "use and close it within one asyncio.run(main())"
            )
        raise RuntimeError(
            f"{self._what} is open in another event loop, and only works there: {self._instead}"
        )


# Operations that continue when their caller is cancelled

_RUNNING: set[asyncio.Task[object]] = set()


async def run_shielded(work: Coroutine[object, None, T]) -> T:
    """Return the result of a coroutine. It runs in a task of its own, which continues when the caller is cancelled.

    Then an exception is logged.

    Raises:
        Exception: The exception of the coroutine, unless the caller was cancelled.
    """
    task = asyncio.get_running_loop().create_task(work)
    _RUNNING.add(task)  # the event loop has only a weak reference to it
    task.add_done_callback(_RUNNING.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)
        raise


def _log_failure(task: asyncio.Task[T]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error(
            "a background operation failed after its caller was cancelled, and is not repeated. See its traceback",
            exc_info=error,
        )


# Listeners


class Listeners(Generic[P]):
    """Listeners for an event. They are called in the order in which they were added, in the thread of the event."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: dict[object, Callable[P, object]] = {}

    def add(self, listener: Callable[P, object]) -> Callable[[], object]:
        """Call `listener` each time from now on. Any thread may call this.

        Returns:
            A function that ends it; called again, it does nothing.
        """
        key = object()
        self._all[key] = listener
        return partial(self._all.pop, key, None)

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all listeners. An exception of one is raised here, and those after it are not called."""
        for listener in tuple(self._all.values()):
            listener(*args, **kwargs)

    def __len__(self) -> int:
        """Return the number of listeners."""
        return len(self._all)
