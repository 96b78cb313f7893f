"""The author's lifespan: entered once for each event loop, in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from ..common.current import running_loop
from ..common.errors import INTERNAL_ERROR, BusyError, ProtocolError

logger = logging.getLogger(__name__)


class Lifespan:
    """One stay in the author's context manager.

    It is entered and left by the same task, as context managers with cancel scopes demand, no
    matter which tasks start and stop it.

    Args:
        enter: Makes the context manager; it is entered at once.

    Attributes:
        users: How many transports keep it entered.
        started: Has what it yielded, as soon as it has been entered, or why it could not be.
    """

    def __init__(self, enter: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        loop = asyncio.get_running_loop()
        self.users = 0
        self._enter = enter
        self._stop = asyncio.Event()
        self._is_entering = False
        self._is_failure_told = False
        self.started: asyncio.Future[Any] = loop.create_future()
        self._task = loop.create_task(self._stay(), name="mcpkit-lifespan")

    async def ready(self) -> Any:
        """Wait until the context manager has been entered, and return what it yielded.

        Raises:
            BaseException: Whatever entering it raised.
        """
        self._is_failure_told = True
        return await asyncio.shield(self.started)

    @property
    def state(self) -> Any:
        """What the context manager yielded.

        Raises:
            BusyError: It is still being entered.
            ProtocolError: It could not be entered. That is logged, once, unless somebody has heard of it by `ready`.
        """
        if not self.started.done():
            raise BusyError(
                "The server is still starting, its lifespan function has not finished. Try again later"
            )
        try:
            return self.started.result()
        except Exception as error:
            if not self._is_failure_told:
                self._is_failure_told = True
                logger.exception("the lifespan function failed at startup")
            raise ProtocolError(
                INTERNAL_ERROR, "The server failed to start. Its log contains the error"
            ) from error

    async def stop(self) -> None:
        """Leave the context manager; where it is still being entered, nobody waits for it any more.

        Raises:
            BaseException: Whatever leaving it raised.
        """
        self._stop.set()
        if self._is_entering:
            self._task.cancel()
        await self._task

    async def _stay(self) -> None:
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
                # As it is it would look as if those were cancelled who wait for the lifespan.
                cause, error = error, RuntimeError("the lifespan function was cancelled before it yielded")
                error.__cause__ = cause
            self.started.set_exception(error)
            self.started.exception()  # whoever waits for `ready` hears of it; nobody has to


Guard = Callable[[Sequence[Lifespan]], None]
"""Lets requests wait for what is being entered in the running event loop."""


class Lifespans:
    """The stays in one server's lifespan, by event loop, and who keeps them.

    Args:
        function: Makes the context manager; None where there is none.
    """

    def __init__(self, function: Callable[[], AbstractAsyncContextManager[Any]] | None) -> None:
        self.function = function
        self._guard: Guard | None = None
        self._stays: WeakKeyDictionary[asyncio.AbstractEventLoop, Lifespan] = WeakKeyDictionary()
        self._serving: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
        self._late: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Lifespans]] = WeakKeyDictionary()

    def state_in(self, loop: asyncio.AbstractEventLoop | None) -> Any:
        """Return what it has yielded in an event loop, the running one when None; None where there is no lifespan.

        Raises:
            BusyError: It has not been entered yet.
            ProtocolError: It could not be.
        """
        if self.function is None:
            return None
        stay = self._stays.get(loop or asyncio.get_running_loop())
        if stay is None:
            raise BusyError(
                "The server has not been started in this event loop, so its lifespan has no state. Enter "
                "`async with server.running():` first"
            )
        return stay.state

    @asynccontextmanager
    async def serving(
        self, family: Sequence[Lifespans], guard: Guard, at_end: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[None]:
        """Keep lifespans entered while this one's server serves.

        Args:
            family: Its own, and those of what it includes; those come last that others need first.
            guard: Lets requests wait for what is being entered in the running event loop, now and later.
            at_end: Awaited before they are left, when nobody serves here any more.

        Raises:
            BaseException: Whatever leaving one of them raised.
        """
        self._guard = guard
        loop = asyncio.get_running_loop()
        self._serving[loop] = self._serving.get(loop, 0) + 1
        async with AsyncExitStack() as stack:
            for each in family:
                each.enter(loop)
                stack.push_async_callback(each.leave, loop)
            guard([stay for each in family if (stay := each.stay(loop)) is not None])
            try:
                yield
            finally:
                self._serving[loop] -= 1
                if self._serving[loop] == 0:
                    for late in self._late.pop(loop, ()):
                        stack.push_async_callback(late.leave, loop)
                    stack.push_async_callback(at_end)

    async def ready(self) -> None:
        """Wait until it has been entered here, where somebody keeps it.

        Raises:
            BaseException: Whatever entering it raised.
        """
        stay = self._stays.get(asyncio.get_running_loop())
        if stay is not None:
            await stay.ready()

    async def state_of(self, owner: Lifespans) -> Any:
        """Wait for what `owner`, this lifespan or one of what its server includes, yields here; None where it is none.

        Raises:
            ProtocolError: It could not be entered.
        """
        if owner.function is None:
            return None
        loop = asyncio.get_running_loop()
        self._begin_late(loop, [owner])
        stay = owner.stay(loop)
        assert stay is not None, "it has just been entered, or was before"
        if not stay.started.done():
            await asyncio.wait((stay.started,))
        return stay.state

    def begin(self, family: Sequence[Lifespans]) -> None:
        """Enter the lifespans of what is included while this one's server runs; from any thread."""
        here = running_loop()
        for loop, count in tuple(self._serving.items()):
            if count and loop is here:
                self._begin_late(loop, family)
            elif count:
                with suppress(RuntimeError):  # it has been closed just now
                    loop.call_soon_threadsafe(self._begin_late, loop, family)

    def _begin_late(self, loop: asyncio.AbstractEventLoop, family: Sequence[Lifespans]) -> None:
        if not self._serving.get(loop):
            return
        for each in family:
            if each.stay(loop) is None and (stay := each.enter(loop)) is not None:
                self._late.setdefault(loop, []).append(each)
                if self._guard is not None:
                    self._guard([stay])

    def stay(self, loop: asyncio.AbstractEventLoop) -> Lifespan | None:
        """Return the stay in an event loop, where somebody keeps it."""
        return self._stays.get(loop)

    def enter(self, loop: asyncio.AbstractEventLoop) -> Lifespan | None:
        """Keep it entered in an event loop, for one more; return the stay, None where there is no lifespan."""
        if self.function is None:
            return None
        stay = self._stays.get(loop)
        if stay is None:
            stay = self._stays[loop] = Lifespan(self.function)
        stay.users += 1
        return stay

    async def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let go of it; it is left when nobody keeps it any more.

        Raises:
            BaseException: Whatever leaving it raised.
        """
        stay = self._stays.get(loop)
        if stay is not None:
            stay.users -= 1
            if stay.users == 0:
                del self._stays[loop]
                await stay.stop()
