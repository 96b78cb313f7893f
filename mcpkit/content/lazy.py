"""Values that are made when somebody looks at them: files, figures, iterators. That may take long.

In an event loop nobody looks at them: there, whoever makes a result is told by `LeaveLoop` to do it in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final, TypeGuard

from ..errors import CallEndedError
from ..running.current import current

MOST_ITEMS: Final = 100_000
"""Items that are taken from an iterator, which may have no end; who returns a list may return more."""


class NoFormError(ValueError):
    """A value of a class that is known has no form in JSON; the text says why, behind the name of its place."""


class EndlessError(NoFormError):
    """An iterator has gone on and on.

    Args:
        kind: What it is.
    """

    def __init__(self, kind: type[Any]) -> None:
        super().__init__(
            f"a {kind.__name__} of more than {MOST_ITEMS:,} items; is it endless? "
            "Take some of them by itertools.islice, or return a list where so many are meant"
        )


class LeaveLoop(BaseException):
    """What is to be made may block, and this is the thread of an event loop; nothing has been taken from it yet."""


def may_block() -> None:
    """Say that what comes next may take long.

    Raises:
        LeaveLoop: This is the thread of an event loop.
    """
    if asyncio._get_running_loop() is not None:
        raise LeaveLoop


_is_put_off: ContextVar[bool] = ContextVar("_is_put_off", default=False)


def put_off_leaving() -> None:
    """Have `leave_if_put_off` raise `LeaveLoop`, where it cannot be raised now."""
    _is_put_off.set(True)


def leave_if_put_off() -> None:
    """Raise the `LeaveLoop` that has been put off."""
    if _is_put_off.get():
        _is_put_off.set(False)
        raise LeaveLoop


def is_iterator(value: object) -> TypeGuard[Iterator[Any]]:
    """Say whether a value gives its items once, one after the other; an open file is read as a whole instead."""
    kind = type(value)
    return hasattr(kind, "__next__") and hasattr(kind, "__iter__") and not hasattr(kind, "read")


def items_of(iterator: Iterator[Any]) -> list[Any]:
    """Return the items of an iterator.

    It is closed where it is left before its end: when there are too many, and when the call is over.

    Raises:
        LeaveLoop: This is the thread of an event loop.
        EndlessError: There are more than `MOST_ITEMS`.
        CallEndedError: Nobody waits for them any more.
        BaseException: Whatever the iterator raises.
    """
    may_block()
    return taken(iterator)


def taken(iterator: Iterator[Any]) -> list[Any]:
    """Do what `items_of` does, in an event loop as well."""
    ctx = current.get(None)  # None in a worker process, which is ended from outside
    items: list[Any] = []
    try:
        for item in islice(iterator, MOST_ITEMS):
            items.append(item)
            if ctx is not None and ctx.cancelled:
                raise CallEndedError(ctx.method)
        if len(items) == MOST_ITEMS and next(iterator, items) is not items:
            raise EndlessError(type(iterator))
    except BaseException:
        if close := getattr(iterator, "close", None):
            close()
        raise
    return items
