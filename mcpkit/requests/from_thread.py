"""Awaiting in the event loop of a request, from a function in a worker thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any, TypeVar

from .._utils.current import running_loop
from .._utils.errors import CallEndedError
from .call import Call

T = TypeVar("T")


def in_loop(coroutine: Coroutine[Any, Any, T], call: Call) -> T:
    """Await a coroutine in the event loop of a request, from a worker thread, until the end of the call.

    Raises:
        CallEndedError: The call has ended.
        RuntimeError: This is the thread of that event loop.
        BaseException: The exception of the coroutine.
    """
    try:
        loop = worker_loop(call)
    except RuntimeError:
        coroutine.close()
        raise
    known = _known(coroutine, call)
    try:
        future = asyncio.run_coroutine_threadsafe(known, loop)
    except RuntimeError:  # it has been closed meanwhile
        known.close()
        coroutine.close()
        raise CallEndedError(call.method) from None
    try:
        value: T
        value, error = future.result()
    except concurrent.futures.CancelledError:
        raise CallEndedError(call.method) from None
    try:
        if error is not None:
            raise error
        return value
    finally:
        del error  # its traceback has this frame


async def _known(coroutine: Coroutine[Any, Any, Any], call: Call) -> tuple[Any, BaseException | None]:
    """Await a coroutine in the event loop, in a task that the call cancels at its end.

    Exceptions are returned, because a task that raises SystemExit would end the event loop.
    """
    task = asyncio.current_task()
    if call.sync_calls is None:
        call.sync_calls = set()
    assert task is not None
    call.sync_calls.add(task)
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - raised in the thread
        return None, error
    finally:
        call.sync_calls.discard(task)


def worker_loop(call: Call) -> asyncio.AbstractEventLoop:
    """Return the event loop of a request, which must not be this thread's.

    Raises:
        CallEndedError: It has been closed.
        RuntimeError: It is this thread's.
    """
    loop = call.loop
    if loop is None or running_loop() is loop:
        raise RuntimeError(
            "ctx.sync only works in a worker thread. In the event loop, await the method of ctx instead"
        )
    if loop.is_closed():
        raise CallEndedError(call.method)
    return loop
