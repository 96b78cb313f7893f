"""Coroutines and tasks: running a coroutine without a task of its own, and the origin of a cancellation."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")

WORK = 0.01
"""Seconds for which a coroutine that could go on at once may hold the event loop."""


def first_step(coroutine: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
    """Run a coroutine in the current task until it waits for the first time.

    Args:
        coroutine: A coroutine that has not started.

    Returns:
        True and its result, if it has finished; else False and the awaited object, for `go_on`.

    Raises:
        BaseException: The exception of the coroutine.
    """
    try:
        return False, coroutine.send(None)
    except StopIteration as end:
        return True, end.value


@types.coroutine
def go_on(coroutine: Coroutine[Any, Any, T], awaited: Any, own: int = 0) -> Generator[Any, Any, T]:
    """Await the rest of a coroutine, in the task of its first step.

    If the coroutine cancels the task, that ends the coroutine, and the cancellation is taken back afterwards.

    Args:
        coroutine: A coroutine after `first_step`.
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
                # While it makes a step, nobody else can cancel the task.
                own += max(0, cancellations(task) - before)
    finally:
        for _ in range(min(own, cancellations(task))):
            assert task is not None
            uncancel(task)


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

    def give_up() -> None:
        nonlocal is_late, timer
        if is_paused is not None and is_paused():
            timer = loop.call_later(seconds, give_up)
            return
        is_late = True
        task.cancel()

    timer = loop.call_later(seconds, give_up)
    try:
        return await awaitable
    except asyncio.CancelledError:
        if not is_late or uncancel(task) > 0:
            raise
        raise TimeoutError(f"it took longer than {seconds:g} seconds") from None
    finally:
        timer.cancel()


def uncancel(task: asyncio.Task[Any]) -> int:
    """Remove a handled cancellation from the task's count of them (Python 3.11).

    Returns:
        The number of other cancellations.
    """
    take_back: Callable[[], int] | None = getattr(task, "uncancel", None)
    return 0 if take_back is None else take_back()


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
            with kept_from_anyio():
                await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            if may_leave():
                raise
            interruption = error
    if interruption is not None:
        raise interruption


def kept_from_anyio() -> AbstractContextManager[object]:
    """Return a shield against a cancelled scope of anyio, which cancels its tasks again in each loop iteration."""
    anyio = sys.modules.get("anyio")  # who uses it has imported it
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)
