"""What a function has returned becomes a result, where the function ran: within its time, and not in the event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from ..content.lazy import MOST_ITEMS, EndlessError, LeaveLoop, is_iterator, items_of, may_block, taken
from ..errors import OutputError
from ..protocol.jsonrpc import SCALARS
from .steps import WORK

if TYPE_CHECKING:
    from ..call import Call

Make = Callable[[Any], Any]
"""Makes a result of what a function returned: the same, however often it is called and wherever."""

_AT_HAND: Final = SCALARS | {dict, list, tuple}
"""The commonest classes that `is_at_hand` says yes of."""

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function in a thread."""


class Unfinished:
    """What a function in a thread has returned, where the event loop has to await it or go through it.

    Args:
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
    if call.rounds is not None:
        call.rounds.check_settled()
    is_there = type(value) in _AT_HAND or is_at_hand(type(value))
    return make(value if is_there else listed(value))


def _is_at_hand(kind: type) -> bool:
    return not any(hasattr(kind, name) for name in ("__await__", "__aiter__", "__next__"))


is_at_hand: Callable[[Any], bool] = lru_cache(maxsize=512)(_is_at_hand)
"""Says whether values of a class are there already, with nothing to await or to go through."""


def listed(value: Any, take: Callable[[Iterator[Any]], list[Any]] = items_of) -> Any:
    """Return the items of an iterator, and any other value as it is; no async iterable in an event loop.

    Args:
        value: The value.
        take: Takes them, one by one.

    Raises:
        LeaveLoop: It is to be gone through, and this is the thread of an event loop.
        OutputError: It does not end.
        BaseException: Whatever it raises.
    """
    if is_async_iterable(value):
        may_block()
    if not is_iterator(value):
        return value
    try:
        return take(value)
    except EndlessError as error:
        raise OutputError(f"result has no form in JSON: {error}") from None


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


def is_async_iterable(value: object) -> bool:
    """Say whether a value gives items by `async for`."""
    return hasattr(type(value), "__aiter__")


async def collected(items: AsyncIterable[Any]) -> list[Any]:
    """Return the items of an async generator or another async iterable; others run at least every 10 ms.

    It is closed where it is left before its end: when there are too many, and when the call is over.

    Raises:
        OutputError: There are too many.
        BaseException: Whatever it raises.
    """
    loop = asyncio.get_running_loop()
    found: list[Any] = []
    since = loop.time()
    try:
        async for item in items:
            if len(found) == MOST_ITEMS:
                raise OutputError(f"result has no form in JSON: {EndlessError(type(items))}")
            found.append(item)
            if loop.time() - since > WORK:
                await asyncio.sleep(0)
                since = loop.time()
    finally:
        if close := getattr(items, "aclose", None):
            await close()
    return found
