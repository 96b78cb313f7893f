"""Listeners for an event: added from any thread, and removed by the function that `add` returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic

from typing_extensions import ParamSpec

P = ParamSpec("P")


class Listeners(Generic[P]):
    """Functions that are called in the order in which they were added, in the thread of the event."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: dict[object, Callable[P, object]] = {}

    def add(self, listener: Callable[P, object]) -> Callable[[], object]:
        """Call `listener` each time from now on.

        Returns:
            A function that ends it; called again, it does nothing.
        """
        key = object()
        self._all[key] = listener
        return partial(self._all.pop, key, None)

    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all listeners. An exception of one is raised here, and those after it are not called."""
        for listener in tuple(self._all.values()):
            listener(*args, **kwargs)

    def __len__(self) -> int:
        """Return the number of listeners."""
        return len(self._all)
