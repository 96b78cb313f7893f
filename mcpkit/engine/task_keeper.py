"""What looks after tasks: made when a server has its first tool whose calls may be tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from ..calls.call import Call
from ..protocol.jsonrpc import Outcome
from ..protocol.types import Json

if TYPE_CHECKING:
    from ..common.listeners import Listeners
    from ..components.tools import AnyTool
    from ..state.change import Change
    from .registry import Extension


class TaskKeeper(Protocol):
    """Makes tasks of calls, answers what is asked of them, and has them run."""

    @property
    def extension(self) -> Extension:
        """What clients of 2026-07-28 declare, and what they listen to of it."""
        ...

    async def call(self, call: Call, tool: AnyTool, arguments: Json) -> Json | bytes:
        """Make a task of a call, where its client knows tasks or wants one, and return what it gets of it, rendered.

        Else, and where the call is the run of a task, call the tool, and return its result as `AnyTool.call` does.

        Raises:
            ProtocolError: The tool is for tasks alone, and the client knows none; or there are too many. Of a run:
                its time is over.
            InputRequired: The client has to answer first.
            Exception: What the arguments or the answers have led to, or the tool has raised.
        """
        ...

    async def serve(self, call: Call) -> Outcome:
        """Answer a request about a task."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Have tasks run in this event loop, and those who wait for them hear, for as long as the block lasts."""
        ...

    def drain(self, grace: float | None) -> None:
        """Hand back the tasks that run in this event loop, as whoever has entered `running` is about to leave.

        Args:
            grace: Seconds in which what runs has to end; None for as long as it takes.
        """
        ...


@asynccontextmanager
async def keeping(
    has_tasks: Callable[[], bool], keeper: Callable[[], TaskKeeper], changes: Listeners[[Change]]
) -> AsyncGenerator[None]:
    """Have the tasks of a server run in this event loop, in a block: from the first on that it has.

    Args:
        has_tasks: Whether there may be any.
        keeper: Returns what looks after them.
        changes: What tells that there may be by now.
    """
    loop = asyncio.get_running_loop()
    beginning: asyncio.Task[None] | None = None
    async with AsyncExitStack() as stack:

        async def begin() -> None:
            await stack.enter_async_context(keeper().running())

        def look() -> None:
            nonlocal beginning
            if beginning is None and has_tasks():
                beginning = loop.create_task(begin())

        def changed(_: Change) -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(look)

        if has_tasks():
            await begin()
            yield
            return
        stop = changes.add(changed)
        try:
            yield
        finally:
            stop()
            if beginning is not None:
                await asyncio.wait((beginning,))
