"""A coroutine's first step without a task, and the rest of it in the task that made it."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest

from mcpkit.calls.coroutines import is_cancelled_from_outside, uncancel
from mcpkit.common.to_the_end import to_the_end

pytestmark = pytest.mark.anyio


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks count their cancellations since Python 3.11")
async def test_outside_cancellation_is_distinguished_from_an_inner_one() -> None:
    seen: list[tuple[bool, int]] = []

    async def outer() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append((is_cancelled_from_outside(error), uncancel(task)))
        stray: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stray.cancel()
        try:
            await stray
        except asyncio.CancelledError as error:
            seen.append((is_cancelled_from_outside(error), 0))

    task = asyncio.ensure_future(outer())
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert seen == [(True, 0), (False, 0)]


async def failing(go_on: asyncio.Event) -> None:
    await go_on.wait()
    raise OSError("the store does not answer")


async def test_to_the_end_error_after_cancellation_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    go_on = asyncio.Event()
    before = asyncio.all_tasks()
    waiting = asyncio.ensure_future(to_the_end(failing(go_on)))
    await asyncio.sleep(0)
    (work,) = asyncio.all_tasks() - before - {waiting}
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with caplog.at_level(logging.ERROR, "mcpkit"):
        go_on.set()
        await asyncio.wait([work], timeout=60)
        await asyncio.sleep(0)  # for what is told of it
    assert "the store does not answer" in caplog.text
