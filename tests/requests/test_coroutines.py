"""A coroutine's first step without a task, and the rest of it in the task that made it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from mcpkit.calls.coroutines import first_step, go_on, is_cancelled_from_outside, uncancel

pytestmark = pytest.mark.anyio


async def rest_of(coroutine: Any) -> Any:
    is_over, value = first_step(coroutine)
    return value if is_over else await go_on(coroutine, value)


async def test_the_rest_runs_in_the_same_task_whatever_it_waits_for() -> None:
    loop = asyncio.get_running_loop()
    tasks: set[object] = set()

    async def work() -> str:
        heard: list[object] = []
        tasks.add(asyncio.current_task())
        heard.append(await asyncio.sleep(0, "slept"))
        future: asyncio.Future[str] = loop.create_future()
        loop.call_soon(future.set_result, "told")
        heard.append(await future)
        failing: asyncio.Future[str] = loop.create_future()
        loop.call_soon(failing.set_exception, ValueError("refused"))
        try:
            await failing
        except ValueError as error:
            heard.append(str(error))
        heard += await asyncio.gather(asyncio.sleep(0, "a"), asyncio.sleep(0, "b"))
        tasks.add(asyncio.current_task())
        return " ".join(map(str, heard))

    assert await rest_of(work()) == "slept told refused a b"
    assert tasks == {asyncio.current_task()}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout came with Python 3.11")
async def test_a_timeout_that_began_in_the_first_step_ends_the_rest() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0.01):  # type: ignore[attr-defined, unused-ignore]  # Python 3.11
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "never"

    assert await rest_of(work()) == "late"


async def test_a_cancellation_reaches_the_coroutine_and_what_it_makes_of_it_comes_out() -> None:
    async def work(is_stubborn: bool) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not is_stubborn:
                raise
        return "stubborn"

    for is_stubborn in (True, False):
        task = asyncio.ensure_future(rest_of(work(is_stubborn)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() is not is_stubborn


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks count their cancellations since Python 3.11")
async def test_a_cancellation_from_outside_is_told_from_one_of_the_code() -> None:
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
