"""Operations that continue when their caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

_RUNNING: set[asyncio.Task[object]] = set()


async def to_the_end(work: Coroutine[object, None, T]) -> T:
    """Return the result of a coroutine. It runs in a task of its own, which continues when the caller is cancelled.

    Then an exception is logged.

    Raises:
        Exception: The exception of the coroutine, unless the caller was cancelled.
    """
    task = asyncio.get_running_loop().create_task(work)
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_tell)
        raise


def _tell(task: asyncio.Task[T]) -> None:
    """Log an exception that has no caller any more."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error(
            "a background operation failed after its caller was cancelled, and is not repeated. See its traceback",
            exc_info=error,
        )
