"""Conversion of a return value to a result, within the call's timeout and outside the event loop if it may block."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ..content.lazy import LeaveLoop, is_iterator, taken
from ..execution.iterables import AT_HAND, collected, is_async_iterable, is_at_hand, listed
from .call import Call

Make = Callable[[Any], Any]
"""Makes a result of what a function returned: the same, however often it is called and wherever."""

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function in a thread."""


class Unfinished:
    """Return value of a function in a thread that the event loop must await or iterate first.

    Attributes:
        value: The return value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def call_and_make(function: Callable[..., Any], kwargs: dict[str, Any], make: Make, call: Call) -> Any:
    """Call a function in this thread, and make its result; `Unfinished` if the event loop must await or iterate it."""
    try:
        value = function(**kwargs)
        if not is_at_hand(type(value)) and (inspect.isawaitable(value) or is_async_iterable(value)):
            return Unfinished(value)
        return make_result(value, make, call)
    finally:
        if call.stops is not None:
            call.take_stops_back()


def make_result(value: Any, make: Make, call: Call) -> Any:
    """Make a result of a value in this thread.

    Raises:
        LeaveLoop: It may block, and this is the thread of an event loop; nothing has been done yet.
        InputRequired: The function has returned, but an answer of the client is missing.
        OutputError: The value has no JSON form.
        BaseException: The exception of the conversion.
    """
    if call.dialogue is not None:
        call.dialogue.check_settled()
    is_there = type(value) in AT_HAND or is_at_hand(type(value))
    return make(value if is_there else listed(value))


async def finish(value: Any, make: Make, call: Call, in_thread: InThread | None = None) -> Any:
    """Make a result of a value in the event loop. A conversion that may block runs in a thread.

    Args:
        value: The awaited return value of a function.
        make: Makes the result.
        call: The request.
        in_thread: Calls a function in a thread; None for the server's worker threads.

    Returns:
        The result.

    Raises:
        BaseException: The exception of the conversion.
    """
    if is_async_iterable(value):
        value = await collected(value)
    with suppress(LeaveLoop):
        return make_result(value, make, call)
    work = partial(make_result, value, make, call)
    return await (call.runtime.threads.run(work, {}, call) if in_thread is None else in_thread(work))


async def finish_call(returned: Any, make: Make, call: Call, in_thread: InThread | None = None) -> Any:
    """Make a result of a return value in the event loop, awaitable or not; see `finish`.

    The items of a generator that is not `async` are taken here, because its function was placed in the event loop.
    """
    if not is_at_hand(type(returned)):
        if inspect.isawaitable(returned):
            returned = await returned
        elif is_iterator(returned):
            returned = listed(returned, taken)
    with suppress(LeaveLoop):
        return make_result(returned, make, call)
    return await finish(returned, make, call, in_thread)
