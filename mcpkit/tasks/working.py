"""Who runs tasks in this process: one runner in each event loop in which their server serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from .runner import Runner


class Working:
    """Runs tasks in the event loops in which their server serves, in each by one runner, however often it is entered.

    None is taken before the lifespan has been entered there, nor where it cannot be.

    Args:
        make: Makes a runner.
        entered: Waits until the lifespan has been entered in the running event loop; says whether it could be.
    """

    def __init__(self, make: Callable[[], Runner], entered: Callable[[], Awaitable[bool]]) -> None:
        self._make = make
        self._entered = entered
        self._here: dict[asyncio.AbstractEventLoop, _Here] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Have tasks run in this event loop, in a block; at the end of the last one they are handed back."""
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
        """Say that one who has entered `running` in this event loop is about to leave; the last one's word counts.

        Args:
            grace: Seconds in which what runs has to end; None for as long as it takes.
        """
        loop = asyncio.get_running_loop()
        here = self._here.get(loop)
        if here is not None:
            here.leaving += 1
            if here.leaving >= here.users:
                self._forget(loop, here)  # whoever enters after that has another one
                here.drain(grace)

    def wake(self) -> None:
        """Look whether there is anything to take, now; from any thread."""
        for here in tuple(self._here.values()):
            here.runner.wake()

    def _forget(self, loop: asyncio.AbstractEventLoop, here: _Here) -> None:
        if self._here.get(loop) is here:
            del self._here[loop]


class _Here:
    """The runner of one event loop.

    Attributes:
        runner: The runner.
        users: How many have entered.
        leaving: How many of them are about to leave.
    """

    def __init__(self, runner: Runner, entered: Callable[[], Awaitable[bool]]) -> None:
        self.runner = runner
        self.users = 0
        self.leaving = 0
        self._entered = entered
        self._is_over = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="mcpkit-tasks")

    def drain(self, grace: float | None) -> None:
        """Begin to end."""
        self._is_over.set()
        self.runner.drain(grace)

    async def end(self) -> None:
        """End, and wait for that; whoever is cancelled meanwhile waits no longer for what runs."""
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
