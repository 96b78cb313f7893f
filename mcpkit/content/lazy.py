"""Values with a conversion that may take long: files, figures, iterators.

They are not converted in an event loop: `LeaveLoop` is raised there, and the conversion is repeated in a thread.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Any, TypeGuard

from pydantic_core import SchemaSerializer

from .._utils.concurrency import current, running_loop

MOST_ITEMS = 100_000
"""Items that are taken from an iterator, which may have no end; who returns a list may return more."""


class NoFormError(ValueError):
    """A value of a known class cannot be converted to JSON. Messages begin with its place."""


class EndlessError(NoFormError):
    """An iterator has too many items, or no end.

    Args:
        kind: Class of the iterator.
        most: Number of items that were read.
    """

    def __init__(self, kind: type[Any], most: int = MOST_ITEMS) -> None:
        super().__init__(
            f"a {kind.__name__} with more than {most:,} items, perhaps endless; "
            "limit it with itertools.islice, or return a list if you need so many"
        )


class LeaveLoop(BaseException):
    """The conversion may block and runs in the thread of an event loop; nothing has been read yet."""


_stays: ContextVar[bool] = ContextVar("_stays", default=False)


@contextmanager
def staying() -> Generator[None, None, None]:
    """Disable `LeaveLoop` for values that are not results, such as defaults of arguments."""
    token = _stays.set(True)
    try:
        yield
    finally:
        _stays.reset(token)


def may_block() -> None:
    """Mark the start of an operation that may take long.

    Raises:
        LeaveLoop: This is the thread of an event loop, and the value is a result.
    """
    if running_loop() is not None and not _stays.get():
        raise LeaveLoop


_is_put_off: ContextVar[bool] = ContextVar("_is_put_off", default=False)


def put_off_leaving() -> None:
    """Make `written` raise `LeaveLoop` later, as pydantic would catch it here."""
    _is_put_off.set(True)


def written(serializer: SchemaSerializer, value: Any) -> bytes:
    """Return the JSON of a value by a serializer of serializing.py. A value of another type is an error.

    Args:
        serializer: The serializer.
        value: The value.

    Raises:
        LeaveLoop: The conversion may block, and this is the thread of an event loop.
        Exception: Raised by pydantic or the author's code.
    """
    try:
        return serializer.to_json(value, by_alias=True, warnings="error")
    finally:
        if _is_put_off.get():
            _is_put_off.set(False)
            raise LeaveLoop


def is_iterator(value: object) -> TypeGuard[Iterator[Any]]:
    """Return whether a value is an iterator; open files, which are read as a whole, are not."""
    return is_iterator_class(type(value))


def is_iterator_class(kind: type[Any]) -> bool:
    """Return whether values of a class are iterators, see `is_iterator`."""
    return hasattr(kind, "__next__") and hasattr(kind, "__iter__") and not hasattr(kind, "read")


_PLAIN_CODE = frozenset({"array", "builtins", "collections", "os", "types"})
"""Modules of container classes that only iterate over their items."""


@lru_cache(maxsize=512)
def is_held(kind: type[Any]) -> bool:
    """Return whether values of a class store their items, so that iterating runs no code of the author."""
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
    """Return the items of an iterator, or of an iterable that computes its items.

    The iterator is closed if it is not read to its end: when it has too many items, and when the call is over.

    Args:
        values: The iterator or iterable. One with a length may have more than `MOST_ITEMS`, up to its length.
        kind: Class for the error message; None takes that of `values`.

    Raises:
        LeaveLoop: This is the thread of an event loop.
        EndlessError: There are more than `MOST_ITEMS`.
        CallEndedError: The call is over.
        BaseException: Raised by the iterable.
    """
    may_block()
    length = len(values) if isinstance(values, Sized) else 0
    return taken(iter(values), kind or type(values), max(MOST_ITEMS, length))


def taken(iterator: Iterator[Any], kind: type[Any] | None = None, most: int = MOST_ITEMS) -> list[Any]:
    """Return the items as `items_of` does, but in an event loop as well."""
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
