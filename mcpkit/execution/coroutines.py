"""Coroutines, tasks and async iterables: first steps, timeouts, cancellations, and the items of a result."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from inspect import isawaitable
from typing import Any, TypeVar

from .._utils.exceptions import OutputError
from ..content.blocks import may_block
from ..content.iterators_and_third_party_values import MAX_ITEMS, EndlessError, is_iterator, items_of
from ..protocol.jsonrpc import SCALARS

T = TypeVar("T")

# Seconds for which a coroutine that never has to wait may occupy the event loop.
TIME_SLICE = 0.01

# Running a coroutine in the current task


def run_to_first_wait(coroutine: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
    """Run a coroutine in the current task until it waits for the first time.

    Args:
        coroutine: A coroutine that has not started.

    Returns:
        True and its result, if it has finished; else False and the awaited object, for `resume`.

    Raises:
        BaseException: The exception of the coroutine.
    """
    try:
        return False, coroutine.send(None)
    except StopIteration as end:
        return True, end.value


@types.coroutine
def resume(coroutine: Coroutine[Any, Any, T], awaited: Any, own: int = 0) -> Generator[Any, Any, T]:
    """Await the rest of a coroutine, in the task of its first step.

    If the coroutine cancels the task, that ends the coroutine, and the cancellation is taken back afterwards.

    Args:
        coroutine: A coroutine after `run_to_first_wait`.
        awaited: The object that it waits for.
        own: Number of cancellations of the task by the first step.

    Returns:
        Its result.

    Raises:
        BaseException: The exception of the coroutine.
    """
    task = asyncio.current_task()
    try:
        while True:
            problem: BaseException | None = None
            sent: Any = None
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001 - the coroutine's to handle
                problem = error
            before = cancellations(task)
            try:
                awaited = coroutine.send(sent) if problem is None else coroutine.throw(problem)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                del problem  # its traceback has this frame
                # While the coroutine makes a step, no other code can cancel the task.
                own += max(0, cancellations(task) - before)
    finally:
        for _ in range(min(own, cancellations(task))):
            assert task is not None
            uncancel(task)


# Timeouts and cancellations


async def gather_or_cancel(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently. If one fails, or the caller is cancelled, the others are cancelled and awaited."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def within(seconds: float, awaitable: Awaitable[T], is_paused: Callable[[], object] | None = None) -> T:
    """Await an object in the current task with a timeout (`asyncio.timeout` came with Python 3.11).

    Args:
        seconds: The timeout.
        awaitable: The object.
        is_paused: Called at the end of the timeout. If it returns True, the timeout begins again.

    Raises:
        TimeoutError: The timeout has ended.
        BaseException: The exception of the awaitable.
    """
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle
    is_late = False

    def expire() -> None:
        nonlocal is_late, timer
        if is_paused is not None and is_paused():
            timer = loop.call_later(seconds, expire)
            return
        is_late = True
        task.cancel()

    timer = loop.call_later(seconds, expire)
    try:
        return await awaitable
    except asyncio.CancelledError:
        if not is_late or uncancel(task) > 0:
            raise
        raise TimeoutError(f"it took longer than {seconds:g} seconds") from None
    finally:
        timer.cancel()


def uncancel(task: asyncio.Task[Any]) -> int:
    """Remove a handled cancellation from the task's count of them, and return the number of others (Python 3.11)."""
    remove: Callable[[], int] | None = getattr(task, "uncancel", None)
    return 0 if remove is None else remove()


def cancellations(task: asyncio.Task[Any] | None) -> int:
    """Return the number of open cancellations of a task; 0 before Python 3.11, which does not count them."""
    count: Callable[[], int] | None = getattr(task, "cancelling", None)
    return 0 if count is None else count()


def is_cancelled_from_outside(error: BaseException) -> bool:
    """Return True if an exception is the cancellation of the current task from outside its code.

    Before Python 3.11 this cannot be detected. Then the result is False, and the caller gets a response.
    """
    return isinstance(error, asyncio.CancelledError) and cancellations(asyncio.current_task()) > 0


async def see_through(task: asyncio.Future[Any], may_leave: Callable[[], bool] = lambda: False) -> None:
    """Wait until a task or future is done, even if the current task is cancelled meanwhile.

    Args:
        task: The task or future.
        may_leave: Returns whether a cancellation ends the wait.

    Raises:
        CancelledError: The current task was cancelled; the other one is done.
    """
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with shield_from_anyio():
                await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            if may_leave():
                raise
            interruption = error
    if interruption is not None:
        raise interruption


def shield_from_anyio() -> AbstractContextManager[object]:
    """Return a shield against a cancelled scope of anyio, which cancels its tasks again in each loop iteration."""
    anyio = sys.modules.get("anyio")  # code with a scope has imported it; its import would slow each start
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)


# Values that must be awaited or iterated

# The most common classes for which `is_complete` is true.
COMPLETE_TYPES = SCALARS | {dict, list, tuple}


def _is_complete(kind: type) -> bool:
    return not any(hasattr(kind, name) for name in ("__await__", "__aiter__", "__next__"))


# Return True if values of a class are complete: there is nothing to await or to iterate.
is_complete: Callable[[Any], bool] = lru_cache(maxsize=512)(_is_complete)


async def finish_awaitable(value: Any) -> Any:
    """Return a value, or the result of awaiting it if it is awaitable."""
    return await value if isawaitable(value) else value


def is_async_iterable(value: object) -> bool:
    """Return True if a value supports `async for`."""
    return hasattr(type(value), "__aiter__")


def listed(value: Any, take: Callable[[Iterator[Any]], list[Any]] = items_of) -> Any:
    """Return the items of an iterator, and any other value unchanged.

    Args:
        value: The value.
        take: Returns the items.

    Raises:
        LeaveLoop: The value must be iterated, and this is the thread of an event loop.
        OutputError: The iterator has too many items.
        BaseException: The exception of the iterator.
    """
    if is_async_iterable(value):
        may_block()
    if not is_iterator(value):
        return value
    try:
        return take(value)
    except EndlessError as error:
        raise OutputError(f"result cannot be converted to JSON: {error}") from None


async def collected(items: AsyncIterable[Any]) -> list[Any]:
    """Return the items of an async generator or another async iterable. Other tasks run at least every 10 ms.

    It is closed if its end is not reached: after too many items, or after a cancellation of the call.

    Raises:
        OutputError: There are too many items.
        BaseException: The exception of the iterable.
    """
    loop = asyncio.get_running_loop()
    found: list[Any] = []
    since = loop.time()
    try:
        async for item in items:
            if len(found) == MAX_ITEMS:
                raise OutputError(f"result cannot be converted to JSON: {EndlessError(type(items))}")
            found.append(item)
            if loop.time() - since > TIME_SLICE:
                await asyncio.sleep(0)
                since = loop.time()
    finally:
        if close := getattr(items, "aclose", None):
            await close()
    return found
