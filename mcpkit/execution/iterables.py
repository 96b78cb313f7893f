"""Return values that must be awaited or iterated first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterator
from functools import lru_cache
from typing import Any

from .._utils.errors import OutputError
from ..content.lazy import MOST_ITEMS, EndlessError, is_iterator, items_of, may_block
from ..protocol.jsonrpc import SCALARS
from .coroutines import WORK

AT_HAND = SCALARS | {dict, list, tuple}
"""The most common classes for which `is_at_hand` is true."""


def _is_at_hand(kind: type) -> bool:
    return not any(hasattr(kind, name) for name in ("__await__", "__aiter__", "__next__"))


is_at_hand: Callable[[Any], bool] = lru_cache(maxsize=512)(_is_at_hand)
"""Whether values of a class are complete: nothing to await or to iterate."""


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


def is_async_iterable(value: object) -> bool:
    """Return True if a value supports `async for`."""
    return hasattr(type(value), "__aiter__")


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
            if len(found) == MOST_ITEMS:
                raise OutputError(f"result cannot be converted to JSON: {EndlessError(type(items))}")
            found.append(item)
            if loop.time() - since > WORK:
                await asyncio.sleep(0)
                since = loop.time()
    finally:
        if close := getattr(items, "aclose", None):
            await close()
    return found
