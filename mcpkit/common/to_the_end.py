"""What is done to its end, also where whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

_RUNNING: set[asyncio.Task[None]] = set()


async def to_the_end(work: Coroutine[object, None, None]) -> None:
    """Do something that goes on in a task of its own when whoever waits for it is cancelled.

    Raises:
        Exception: Whatever it raises, as long as somebody waits for it.
    """
    task = asyncio.get_running_loop().create_task(work)
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)
    await asyncio.shield(task)
