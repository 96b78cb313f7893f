"""The server's lifespan function: entered once for each event loop, in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from .._utils.concurrency import call_in_loop, running_loop
from .._utils.exceptions import INTERNAL_ERROR, BusyError, ProtocolError

logger = logging.getLogger(__name__)


class Lifespan:
    """The lifespan in one event loop.

    One task enters and exits the context manager, as context managers with cancel scopes require, whichever tasks start
    and stop it.

    Args:
        enter: Returns the context manager, which is entered at once.

    Attributes:
        users: Number of transports that use it.
        started: Future of the yielded value, or of the error at startup.
    """

    def __init__(self, enter: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        loop = asyncio.get_running_loop()
        self.users = 0
        self._enter = enter
        self._stop = asyncio.Event()
        self._is_entering = False
        self._is_failure_reported = False
        self.started: asyncio.Future[Any] = loop.create_future()
        self._task = loop.create_task(self._run(), name="mcpkit-lifespan")

    async def ready(self) -> Any:
        """Wait until the context manager has been entered, and return the yielded value.

        Raises:
            BaseException: The exception of entering it.
        """
        self._is_failure_reported = True
        return await asyncio.shield(self.started)

    @property
    def state(self) -> Any:
        """Value that the context manager yielded.

        Raises:
            BusyError: The context manager is still being entered.
            ProtocolError: Entering it failed. The first access logs the error, unless `ready` has raised it before.
        """
        if not self.started.done():
            raise BusyError(
                "The server is still starting, its lifespan function has not finished. Try again later"
            )
        try:
            return self.started.result()
        except Exception as error:
            if not self._is_failure_reported:
                self._is_failure_reported = True
                logger.exception(
                    "the lifespan function failed at startup, so requests that need it fail. Fix it, and restart"
                )
            raise ProtocolError(
                INTERNAL_ERROR, "The server failed to start. Its log contains the error"
            ) from error

    async def stop(self) -> None:
        """Exit the context manager; if it is still being entered, cancel that.

        Raises:
            BaseException: The exception of the exit.
        """
        self._stop.set()
        if self._is_entering:
            self._task.cancel()
        await self._task

    async def _run(self) -> None:
        self._is_entering = True
        try:
            manager = self._enter()
            if not hasattr(manager, "__aenter__"):
                raise TypeError(
                    f"lifespan returned {manager!r}, which is not an async context manager. "
                    "Decorate the function with @contextlib.asynccontextmanager"
                )
            async with manager as state:
                self._is_entering = False
                self.started.set_result(state)
                await self._stop.wait()
        except BaseException as error:
            self._is_entering = False
            if self.started.done():
                raise
            if isinstance(error, asyncio.CancelledError) and not self._stop.is_set():
                # A CancelledError would look as if the tasks that wait for the lifespan were cancelled.
                cause, error = error, RuntimeError("the lifespan function was cancelled before it yielded")
                error.__cause__ = cause
            self.started.set_exception(error)
            self.started.exception()  # marks it as retrieved: `ready` and `state` raise it, if they are used


# Makes requests wait for lifespans that are being entered in the running event loop.
Guard = Callable[[Sequence[Lifespan]], None]


class Lifespans:
    """The lifespans of one server, by event loop, with a count of their users.

    Args:
        function: Returns the context manager; None if the server has no lifespan function.
    """

    def __init__(self, function: Callable[[], AbstractAsyncContextManager[Any]] | None) -> None:
        self.function = function
        self._guard: Guard | None = None
        self._entered: WeakKeyDictionary[asyncio.AbstractEventLoop, Lifespan] = WeakKeyDictionary()
        self._serving: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
        self._included: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Lifespans]] = WeakKeyDictionary()

    def get(self, loop: asyncio.AbstractEventLoop) -> Lifespan | None:
        """Return the lifespan in an event loop; None if it is not in use there."""
        return self._entered.get(loop)

    def enter(self, loop: asyncio.AbstractEventLoop) -> Lifespan | None:
        """Add a user in an event loop, and enter the lifespan for the first; None without a lifespan function."""
        if self.function is None:
            return None
        lifespan = self._entered.get(loop)
        if lifespan is None:
            lifespan = self._entered[loop] = Lifespan(self.function)
        lifespan.users += 1
        return lifespan

    async def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Remove a user in an event loop, and exit the lifespan after the last.

        Raises:
            BaseException: The exception of the exit.
        """
        lifespan = self._entered.get(loop)
        if lifespan is not None:
            lifespan.users -= 1
            if lifespan.users == 0:
                del self._entered[loop]
                await lifespan.stop()

    async def ready(self) -> None:
        """Wait until the lifespan has started in this event loop, if it is in use here.

        Raises:
            BaseException: The exception of its start.
        """
        lifespan = self._entered.get(asyncio.get_running_loop())
        if lifespan is not None:
            await lifespan.ready()

    # The yielded value

    def state_in(self, loop: asyncio.AbstractEventLoop | None) -> Any:
        """Return the yielded value in an event loop, by default the running one; None without a lifespan function.

        Raises:
            BusyError: The lifespan has not started yet.
            ProtocolError: The lifespan failed to start.
        """
        if self.function is None:
            return None
        lifespan = self._entered.get(loop or asyncio.get_running_loop())
        if lifespan is None:
            raise BusyError(
                "The server has not been started in this event loop, so its lifespan has no state. Enter "
                "`async with server.running():` first"
            )
        return lifespan.state

    async def state_of(self, owner: Lifespans) -> Any:
        """Wait for the yielded value of this lifespan, or of an included server's; None without a lifespan function.

        Args:
            owner: The lifespans.

        Raises:
            ProtocolError: The lifespan failed to start.
        """
        if owner.function is None:
            return None
        loop = asyncio.get_running_loop()
        self._enter_included(loop, [owner])
        lifespan = owner.get(loop)
        assert lifespan is not None, "it has just been entered, or was before"
        if not lifespan.started.done():
            await asyncio.wait((lifespan.started,))
        return lifespan.state

    # While the server runs

    @asynccontextmanager
    async def serving(
        self, family: Sequence[Lifespans], guard: Guard, at_end: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[None]:
        """Return a context manager that keeps lifespans entered while the server runs.

        Args:
            family: Lifespans of the server and of included servers. Those that others depend on come last.
            guard: Makes requests wait for lifespans that are being entered in the running event loop, now and later.
            at_end: Awaited before the lifespans are exited, when the server has no other user in this event loop.

        Raises:
            BaseException: The exception of an exit.
        """
        self._guard = guard
        loop = asyncio.get_running_loop()
        self._serving[loop] = self._serving.get(loop, 0) + 1
        async with AsyncExitStack() as stack:
            for each in family:
                each.enter(loop)
                stack.push_async_callback(each.leave, loop)
            guard([lifespan for each in family if (lifespan := each.get(loop)) is not None])
            try:
                yield
            finally:
                self._serving[loop] -= 1
                if self._serving[loop] == 0:
                    for included in self._included.pop(loop, ()):
                        stack.push_async_callback(included.leave, loop)
                    stack.push_async_callback(at_end)

    def begin(self, family: Sequence[Lifespans]) -> None:
        """Enter the lifespans of an included server while this server runs; from any thread."""
        here = running_loop()
        for loop, count in tuple(self._serving.items()):
            if count and loop is here:
                self._enter_included(loop, family)
            elif count:
                call_in_loop(loop, self._enter_included, loop, family)

    def _enter_included(self, loop: asyncio.AbstractEventLoop, family: Sequence[Lifespans]) -> None:
        if not self._serving.get(loop):
            return
        for each in family:
            if each.get(loop) is None and (lifespan := each.enter(loop)) is not None:
                self._included.setdefault(loop, []).append(each)
                if self._guard is not None:
                    self._guard([lifespan])
