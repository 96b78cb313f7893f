"""The author's lifespan: entered once for each event loop, in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server import Server

LifespanFunction = Callable[["Server"], AbstractAsyncContextManager[Any]]


class Lifespan:
    """One stay in the author's context manager.

    It is entered and left by the same task, as context managers with cancel scopes demand, no
    matter which tasks start and stop it.

    Args:
        enter: Makes the context manager; it is entered at once.

    Attributes:
        users: How many transports keep it entered.
    """

    def __init__(self, enter: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        loop = asyncio.get_running_loop()
        self.users = 0
        self._enter = enter
        self._stop = asyncio.Event()
        self._is_entering = False
        self._started: asyncio.Future[Any] = loop.create_future()
        self._task = loop.create_task(self._stay(), name="mcpkit-lifespan")

    async def ready(self) -> Any:
        """Wait until the context manager has been entered, and return what it yielded.

        Raises:
            BaseException: Whatever entering it raised.
        """
        if self._started.done():
            return self._started.result()
        return await asyncio.shield(self._started)

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
                    f"lifespan made {manager!r}, which is no async context manager: "
                    "decorate its function with @contextlib.asynccontextmanager"
                )
            async with manager as state:
                self._is_entering = False
                self._started.set_result(state)
                await self._stop.wait()
        except BaseException as error:
            self._is_entering = False
            if self._started.done():
                raise
            self._started.set_exception(error)
            self._started.exception()  # whoever waits for `ready` hears of it; nobody has to
