"""Values that are made when somebody looks at them: files, figures, iterators. That may take long.

In an event loop nobody looks at them: there, whoever makes a result is told by `LeaveLoop` to do it in a thread.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Any, TypeGuard

from pydantic_core import SchemaSerializer

from ..common.current import current, running_loop

MOST_ITEMS = 100_000
"""Items that are taken from an iterator, which may have no end; who returns a list may return more."""


class NoFormError(ValueError):
    """A value of a class that is known has no form in JSON; the text says why, behind the name of its place."""


class EndlessError(NoFormError):
    """An iterator has gone on and on.

    Args:
        kind: What it is.
        most: How many items have been taken of it.
    """

    def __init__(self, kind: type[Any], most: int = MOST_ITEMS) -> None:
        super().__init__(
            f"a {kind.__name__} with more than {most:,} items, perhaps endless; "
            "limit it with itertools.islice, or return a list if you need so many"
        )


class LeaveLoop(BaseException):
    """What is to be made may block, and this is the thread of an event loop; nothing has been taken from it yet."""


_stays: ContextVar[bool] = ContextVar("_stays", default=False)


@contextmanager
def staying() -> Generator[None, None, None]:
    """Have nothing leave the event loop: what is written here is no result, such as a default of an argument."""
    token = _stays.set(True)
    try:
        yield
    finally:
        _stays.reset(token)


def may_block() -> None:
    """Say that what comes next may take long.

    Raises:
        LeaveLoop: This is the thread of an event loop, and what is made is a result.
    """
    if running_loop() is not None and not _stays.get():
        raise LeaveLoop


_is_put_off: ContextVar[bool] = ContextVar("_is_put_off", default=False)


def put_off_leaving() -> None:
    """Have `written` raise `LeaveLoop`, where it cannot be raised now."""
    _is_put_off.set(True)


def written(serializer: SchemaSerializer, value: Any) -> bytes:
    """Return a value as JSON by a serialiser of serializing.py; what is not of its type is an error.

    Args:
        serializer: The serialiser.
        value: The value.

    Raises:
        LeaveLoop: Something in it may block, and this is the thread of an event loop.
        Exception: Whatever pydantic or the author's code raises.
    """
    try:
        return serializer.to_json(value, by_alias=True, warnings="error")
    finally:
        if _is_put_off.get():
            _is_put_off.set(False)
            raise LeaveLoop


def is_iterator(value: object) -> TypeGuard[Iterator[Any]]:
    """Say whether a value gives its items once, one after the other; an open file is read as a whole instead."""
    return is_iterator_class(type(value))


def is_iterator_class(kind: type[Any]) -> bool:
    """Say whether the values of a class are iterators; see `is_iterator`."""
    return hasattr(kind, "__next__") and hasattr(kind, "__iter__") and not hasattr(kind, "read")


_PLAIN_CODE = frozenset({"array", "builtins", "collections", "os", "types"})
"""Modules of container classes that only iterate over their items."""


@lru_cache(maxsize=512)
def is_held(kind: type[Any]) -> bool:
    """Say whether values of a class hold their items: to go through them runs no code of the author's."""
    defining = {
        name: next((base for base in kind.__mro__ if name in vars(base)), object)
        for name in ("__iter__", "items", "__getitem__")
    }
    if defining["items"] is Mapping:  # it asks for the other two
        del defining["items"]
    elif defining["__iter__"] is Sequence:  # it asks for items by their numbers
        del defining["__iter__"]
    elif defining["__iter__"].__module__ in _PLAIN_CODE:
        del defining["__getitem__"]
    return not is_iterator_class(kind) and all(each.__module__ in _PLAIN_CODE for each in defining.values())


def items_of(values: Iterable[Any], kind: type[Any] | None = None) -> list[Any]:
    """Return the items of an iterator, or of what makes its items when it is gone through.

    It is closed where it is left before its end: when there are too many, and when the call is over.

    Args:
        values: The iterator or iterable. One that knows its length may be longer than `MOST_ITEMS`, and no longer
            than it says.
        kind: Whose items they are, for the error; the class of `values` where it is None.

    Raises:
        LeaveLoop: This is the thread of an event loop.
        EndlessError: There are more than `MOST_ITEMS`.
        CallEndedError: Nobody waits for them any more.
        BaseException: Whatever the iterable raises.
    """
    may_block()
    length = len(values) if isinstance(values, Sized) else 0
    return taken(iter(values), kind or type(values), max(MOST_ITEMS, length))


def taken(iterator: Iterator[Any], kind: type[Any] | None = None, most: int = MOST_ITEMS) -> list[Any]:
    """Do what `items_of` does, in an event loop as well."""
    running = current.get(None)  # None in a worker process, which is ended from outside
    items: list[Any] = []
    try:
        for item in islice(iterator, most):
            items.append(item)
            if running is not None:
                running.check_open()
        if len(items) == most and next(iterator, items) is not items:
            raise EndlessError(kind or type(iterator), most)
    except BaseException:
        if close := getattr(iterator, "close", None):
            close()
        raise
    return items
