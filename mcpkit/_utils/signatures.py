"""Decorators that keep a readable signature for people, editors and type checkers on a generic function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import update_wrapper, wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

from typing_extensions import Self

from .nearest import nearest

C = TypeVar("C", bound=Callable[..., Any])

NO_GROUPS: Mapping[str, Any] = MappingProxyType({})


def runs(function: Callable[..., Any]) -> Callable[[C], C]:
    """Return a decorator that runs a function in place of the decorated one.

    The decorated function only declares signature and docstring. The function that runs gets only the arguments that
    the caller has passed, so it can detect an omitted option.

    Args:
        function: The function that runs.
    """

    def declare(declared: C) -> C:
        return cast("C", update_wrapper(function, declared))

    return declare


def refuses_unknown(where: str, groups: Mapping[str, Any]) -> Callable[[C], C]:
    """Return a decorator that rejects unknown options with a `TypeError` that suggests the right one.

    Args:
        where: Name of the call, such as `Server()`.
        groups: Dataclasses of option groups, by option.
    """

    def declare(function: C) -> C:
        known = function.__kwdefaults__ or {}

        @wraps(function)
        def checked(*arguments: Any, **options: Any) -> Any:
            for name in options:
                if name not in known:
                    raise TypeError(unknown_option(where, name, known, groups))
            return function(*arguments, **options)

        return cast("C", checked)

    return declare


def unknown_option(
    where: str, name: str, known: Collection[str], groups: Mapping[str, Any] = NO_GROUPS
) -> str:
    """Return the error text for an unknown option.

    Args:
        where: Name of the call, such as `Limits()`.
        name: The unknown option.
        known: The known options.
        groups: Dataclasses of option groups, by option.
    """
    for option, group in groups.items():
        if name in group.__dataclass_fields__:
            return f"{where} has no option {name!r}. Write {option}={group.__name__}({name}=...)"
    guess = nearest(name, known)
    hint = f"Did you mean {guess!r}?" if guess is not None else f"Its options are {', '.join(known)}."
    return f"{where} has no option {name!r}. {hint}"


class Described(float):
    """Default value that depends on other options. Signatures show it in words.

    Args:
        words: Description of the value.
    """

    def __new__(cls, words: str) -> Self:
        """Create one; it equals no valid number."""
        return super().__new__(cls, -1)

    def __init__(self, words: str) -> None:
        self._words = words

    def __repr__(self) -> str:
        """Show the words."""
        return f"<{self._words}>"
