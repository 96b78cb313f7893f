"""What is done to its end, also where whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

_RUNNING: set[asyncio.Task[object]] = set()


async def to_the_end(work: Coroutine[object, None, T]) -> T:
    """Return what comes of something that goes on in a task of its own when whoever waits for it is cancelled.

    What it raises then is logged.

    Raises:
        Exception: Whatever it raises, as long as somebody waits for it.
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
    """Log what nobody hears of any more."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a background operation failed after its caller was cancelled", exc_info=error)
