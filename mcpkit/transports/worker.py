"""Worker process that serves no clients and runs the tasks of a server: `mcpkit worker server:server`."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from .._utils.option_checks import check_count, check_seconds
from ..engine.engine import Engine, Served
from ..tasks.task_creation_and_methods import TaskService
from .watchdog import Watchdog

logger = logging.getLogger(__name__)

_TASKS_SHARE = 0.8
"""The part of the grace period in which tasks may end; the rest is for leaving the lifespan."""


class NoWorkError(Exception):
    """The server has no tasks that a worker can run."""


def run_worker(server: Served, *, slots: int | None = None, grace: float = 10.0) -> None:
    """Run the tasks of a server until a signal is received.

    SIGINT and SIGTERM end the worker: it accepts no more tasks, and running tasks finish or are handed back to other
    workers. A second signal ends the process at once. Other workers run its tasks when their leases expire.

    Args:
        server: The server.
        slots: Number of concurrent tasks; None takes the number of the server.
        grace: Seconds from a signal to the end of the process.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
        NoWorkError: The server has no tasks, or does not share them with other processes.
        BaseException: The exception of the lifespan of the server.
    """
    check_options(slots, grace)
    engine = server.engine
    runtime = engine.runtime
    if not runtime.storage.is_persistent:
        raise NoWorkError(
            f"{runtime.name} keeps its tasks in the memory of its own process, so a worker cannot reach "
            f'them. Use an engine that processes share, such as Server("{runtime.name}", '
            'storage=Sqlite("tasks.db"))'
        )
    tasks = engine.methods.tasks
    assert isinstance(tasks, TaskService), "the task service must be a TaskService"
    tasks.work_here(slots)
    with Watchdog(grace, ends_on_second_sigterm=True) as watchdog:
        asyncio.run(_work(engine, tasks.slots, grace * _TASKS_SHARE, watchdog))


def check_options(slots: int | None, grace: float) -> None:
    """Check the options of a worker.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
    """
    check_count("slots", slots, none="the number that the server sets")
    check_seconds("grace", grace, may_be_zero=True)


async def _work(engine: Engine, slots: int, grace: float, watchdog: Watchdog) -> None:
    loop, stop_event = asyncio.get_running_loop(), asyncio.Event()
    name = engine.runtime.name

    def stop() -> None:
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(stop_event.set)

    watchdog.watch(None, on_signal=stop)
    async with engine.running():
        entering, waiting = loop.create_task(engine.ready()), loop.create_task(stop_event.wait())
        try:
            await asyncio.wait((entering, waiting), return_when=asyncio.FIRST_COMPLETED)
            if entering.done():
                entering.result()
                if not engine.declared.has("tasks"):
                    raise NoWorkError(
                        f"{name} has no tool that can run as a task. Write @server.tool(task=True)"
                    )
                logger.info("a worker of %s is ready: %d slots, %r", name, slots, engine.runtime.storage)
                await waiting
        finally:
            entering.cancel()
            waiting.cancel()
            engine.drain(grace)
    logger.info("the worker of %s has stopped", name)
