"""What a function has returned becomes a result, where the function ran: within its time, and not in the event loop."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ..content.lazy import LeaveLoop, is_iterator, taken
from .call import Call
from .iterables import AT_HAND, collected, is_async_iterable, is_at_hand, listed

Make = Callable[[Any], Any]
"""Makes a result of what a function returned: the same, however often it is called and wherever."""

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function in a thread."""


class Unfinished:
    """What a function in a thread has returned, where the event loop has to await it or go through it.

    Attributes:
        value: What it returned.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def call_and_make(function: Callable[..., Any], kwargs: dict[str, Any], make: Make, call: Call) -> Any:
    """Call a function in this thread, and make its result; `Unfinished` where the event loop comes first."""
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
        InputRequired: The function has returned although the client has still to answer.
        OutputError: It has no form in JSON.
        BaseException: Whatever making it raises.
    """
    if call.dialogue is not None:
        call.dialogue.check_settled()
    is_there = type(value) in AT_HAND or is_at_hand(type(value))
    return make(value if is_there else listed(value))


async def finish(value: Any, make: Make, call: Call, in_thread: InThread | None = None) -> Any:
    """Make a result of a value in the event loop: of plain data here, of what may block in a thread.

    Args:
        value: What a function has returned, and has been awaited.
        make: Makes the result.
        call: The request.
        in_thread: Calls a function in a thread; the server's threads where it is None.

    Returns:
        The result.

    Raises:
        BaseException: Whatever making it raises.
    """
    if is_async_iterable(value):
        value = await collected(value)
    with suppress(LeaveLoop):
        return make_result(value, make, call)
    work = partial(make_result, value, make, call)
    return await (call.runtime.threads.run(work, {}, call) if in_thread is None else in_thread(work))


async def finish_call(returned: Any, make: Make, call: Call, in_thread: InThread | None = None) -> Any:
    """Make a result of what a function has returned in the event loop, something to await or not; see `finish`.

    What one that is not `async` yields is taken here, as its author wants it to run here.
    """
    if not is_at_hand(type(returned)):
        if inspect.isawaitable(returned):
            returned = await returned
        elif is_iterator(returned):
            returned = listed(returned, taken)
    with suppress(LeaveLoop):
        return make_result(returned, make, call)
    return await finish(returned, make, call, in_thread)
