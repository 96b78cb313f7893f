"""Signatures that are there to be read, by people, editors and type checkers, before what runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

from typing_extensions import Self

C = TypeVar("C", bound=Callable[..., Any])


def runs(function: Callable[..., Any]) -> Callable[[C], C]:
    """Run a function in the place of the one below, whose signature and docstring say what it takes.

    The one that runs gets what the caller has given and nothing else, so it can tell an option that was left out.

    Args:
        function: The one that runs.
    """

    def declare(declared: C) -> C:
        return cast("C", update_wrapper(function, declared))

    return declare


class Described(float):
    """A default that depends on something, which a signature shows in words.

    Args:
        words: What it is.
    """

    def __new__(cls, words: str) -> Self:
        """Make one; it equals no number that an author may give."""
        return super().__new__(cls, -1)

    def __init__(self, words: str) -> None:
        self._words = words

    def __repr__(self) -> str:
        """Show the words."""
        return f"<{self._words}>"
