"""Runners of tasks in this process: one in each event loop in which the server runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from .runner import Runner


class Working:
    """Runs tasks in the event loops of a server, with one runner for each event loop.

    No task is taken before the lifespan has started there, nor if it fails.

    Args:
        make: Makes a runner.
        entered: Waits until the lifespan has started in the running event loop; returns False if it failed.
    """

    def __init__(self, make: Callable[[], Runner], entered: Callable[[], Awaitable[bool]]) -> None:
        self._make = make
        self._entered = entered
        self._here: dict[asyncio.AbstractEventLoop, _Here] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run tasks in this event loop while the context is active.

        At the end of the last context, unfinished tasks are handed back.
        """
        loop = asyncio.get_running_loop()
        here = self._here.get(loop)
        if here is None:
            here = self._here[loop] = _Here(self._make(), self._entered)
        here.users += 1
        try:
            yield
        finally:
            here.users -= 1
            here.leaving = max(0, here.leaving - 1)
            if here.users == 0:
                self._forget(loop, here)
                await here.end()

    def drain(self, grace: float | None) -> None:
        """Announce that a context of `running` in this event loop is about to end. The last one drains the runner.

        Args:
            grace: Seconds for running tasks to end; None for no limit.
        """
        loop = asyncio.get_running_loop()
        here = self._here.get(loop)
        if here is not None:
            here.leaving += 1
            if here.leaving >= here.users:
                self._forget(loop, here)  # whoever enters after that has another one
                here.drain(grace)

    def wake(self) -> None:
        """Look for tasks now; from any thread."""
        for here in tuple(self._here.values()):
            here.runner.wake()

    def _forget(self, loop: asyncio.AbstractEventLoop, here: _Here) -> None:
        if self._here.get(loop) is here:
            del self._here[loop]


class _Here:
    """The runner of one event loop.

    Attributes:
        runner: The runner.
        users: Number of active contexts.
        leaving: Number of contexts that are about to end.
    """

    def __init__(self, runner: Runner, entered: Callable[[], Awaitable[bool]]) -> None:
        self.runner = runner
        self.users = 0
        self.leaving = 0
        self._entered = entered
        self._is_over = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="mcpkit-tasks")

    def drain(self, grace: float | None) -> None:
        """Begin the shutdown."""
        self._is_over.set()
        self.runner.drain(grace)

    async def end(self) -> None:
        """Shut down. A cancelled caller does not wait for running tasks any longer."""
        self._is_over.set()
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait((self._task,))
            raise

    async def _run(self) -> None:
        over = asyncio.create_task(self._is_over.wait())
        entering = asyncio.ensure_future(self._entered())
        try:
            await asyncio.wait((entering, over), return_when=asyncio.FIRST_COMPLETED)
            if over.done() or not entering.result():
                return
            async with self.runner.running():
                await over
        finally:
            entering.cancel()
            over.cancel()
