"""The interface of tasks, which are loaded when a server has its first tool with `task=`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from ..protocol.jsonrpc import Outcome
from ..protocol.types import Json
from ..requests.call import Call

if TYPE_CHECKING:
    from .._utils.concurrency import Listeners
    from ..components.tool import AnyTool
    from ..identity.principal import Change
    from .registry import Extension


class TaskKeeper(Protocol):
    """Creates tasks from calls, serves the task methods, and runs tasks."""

    @property
    def extension(self) -> Extension:
        """The task extension of 2026-07-28, which clients declare, with its topic."""
        ...

    async def call(self, call: Call, tool: AnyTool, arguments: Json) -> Json | bytes:
        """Create a task if the client supports tasks or requests one, and return the rendered handle.

        Otherwise, and in the run of a task, call the tool and return its result as `AnyTool.call` does.

        Raises:
            ProtocolError: The tool requires a task, and the client does not support them; or there are too many tasks.
                In a run: its time limit has passed.
            InputRequired: The client must answer a request first.
            Exception: Any exception of the tool, of its arguments, or of the client's answers.
        """
        ...

    async def serve(self, call: Call) -> Outcome:
        """Serve a request about a task."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run tasks in this event loop within the block, and deliver their changes to waiting calls."""
        ...

    def drain(self, grace: float | None) -> None:
        """Release the tasks that run in this event loop, before a block of `running` ends.

        Args:
            grace: Seconds that running tasks may take to end; None for no limit.
        """
        ...


@asynccontextmanager
async def keeping(
    has_tasks: Callable[[], bool], keeper: Callable[[], TaskKeeper], changes: Listeners[[Change]]
) -> AsyncGenerator[None]:
    """Run the tasks of a server in this event loop within the block, from its first tool with `task=` on.

    Args:
        has_tasks: Returns True if the server has such a tool.
        keeper: Returns the task keeper.
        changes: Listeners of the catalog's changes, after which `has_tasks` is called again.
    """
    loop = asyncio.get_running_loop()
    beginning: asyncio.Task[None] | None = None
    async with AsyncExitStack() as stack:

        async def begin() -> None:
            await stack.enter_async_context(keeper().running())

        def begin_if_needed() -> None:
            nonlocal beginning
            if beginning is None and has_tasks():
                beginning = loop.create_task(begin())

        def changed(_: Change) -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(begin_if_needed)

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
