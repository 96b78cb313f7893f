"""Checks of options, and declarations of functions with many options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import update_wrapper, wraps
from math import isfinite
from types import MappingProxyType
from typing import Any, TypeVar, cast

from typing_extensions import Self

from .exceptions import RegistrationError

C = TypeVar("C", bound=Callable[..., Any])

_NO_GROUPS: Mapping[str, Any] = MappingProxyType({})

_MAX_COMPARED_LENGTH = 100
# Number of known names that an unknown one is compared with. Those of a similar length are preferred.
_MAX_COMPARED = 500
_MIN_PART = 3


# Values


def check_count(name: str, count: object, *, least: int = 1, none: str = "", example: str = "") -> None:
    """Check an option with a count.

    Args:
        name: Name of the option.
        count: The number.
        least: The minimum.
        none: Meaning of None, such as `one page`; empty if None is invalid.
        example: Text after "must be an integer" in the message of the TypeError.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is below the minimum.
    """
    or_none = f", or None for {none}" if none else ""
    if count is None and none:
        return
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{name} must be an integer{example}{or_none}, got {count!r}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}{or_none}, got {count!r}")


def check_seconds(
    name: str, seconds: object, *, may_be_zero: bool = False, may_be_none: bool = False
) -> None:
    """Check an option with seconds.

    Args:
        name: Name of the option.
        seconds: The number of seconds.
        may_be_zero: Whether 0 is valid.
        may_be_none: Whether None is valid.

    Raises:
        TypeError: It is not a number.
        ValueError: It is too small, or not finite.
    """
    if seconds is None and may_be_none:
        return
    least = "of at least 0" if may_be_zero else "above 0"
    or_none = ", or None" if may_be_none else ""
    expected = f"{name} must be a number of seconds {least}{or_none}, got {seconds!r}"
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(expected)
    if not isfinite(seconds) or seconds < 0 or (seconds == 0 and not may_be_zero):
        raise ValueError(expected)


def check_function(
    name: str, function: object, of: str, *, or_else: str = "", may_be_async: bool = True
) -> None:
    """Check that an option is callable.

    Args:
        name: Name of the option.
        function: The function, or None.
        of: Parameter of the function, for messages.
        or_else: Alternative type for messages, such as `or a SamplingHandler`.
        may_be_async: Whether the return value is awaited.

    Raises:
        TypeError: It is not callable, or it is async and would not be awaited.
    """
    if inspect.iscoroutinefunction(function) and not may_be_async:
        raise TypeError(f"{name} must be a function of {of} that is not async, as it is not awaited")
    if function is not None and not callable(function):
        raise TypeError(f"{name} must be a function of {of}{or_else and ', '}{or_else}, got {function!r}")


def check_hook(hook: object, name: str, argument: str, waits: str) -> None:
    """Check that a hook is callable with one argument and is not async.

    Args:
        hook: The function.
        name: Name of the method that registers it, such as `on_error`.
        argument: Class of its argument.
        waits: Reason why it cannot be async, for messages.

    Raises:
        RegistrationError: It is not a function of one argument, or it is async.
    """
    call = getattr(hook, "__call__", None)  # noqa: B004 - an object's own
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(call):
        raise RegistrationError(
            f"{name}: {hook!r} is async, but {waits}. Write `def`, and start slow work with asyncio.create_task"
        )
    try:
        if not callable(hook):
            raise TypeError
        inspect.signature(hook).bind(None)
    except (TypeError, ValueError):
        raise RegistrationError(f"{name} takes a function of one {argument}, got {hook!r}") from None


# Names


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one, for "Did you mean"; None if none is similar.

    `maxResults` is similar to `max_results`, `lattitude` and `lat` to `latitude`.

    Args:
        name: The unknown name.
        known: The known names.
    """
    if len(name) > _MAX_COMPARED_LENGTH:
        return None
    bare = {_bare(each): each for each in known}
    unknown = _bare(name)
    if unknown in bare:
        return bare[unknown]
    import difflib
    from heapq import nsmallest

    # Each comparison takes as long as the validation of a thousand values.
    compared = list(bare)
    if len(bare) > _MAX_COMPARED:
        compared = nsmallest(_MAX_COMPARED, bare, lambda each: abs(len(each) - len(unknown)))
    if close := difflib.get_close_matches(unknown, compared, n=1):
        return bare[close[0]]
    related = [
        each
        for part, each in bare.items()
        if (len(unknown) >= _MIN_PART and unknown in part) or (len(part) >= _MIN_PART and part in unknown)
    ]
    return related[0] if len(related) == 1 else None


def _bare(name: str) -> str:
    """Return a name in lower case, without punctuation."""
    return "".join(character for character in name.casefold() if character.isalnum())


def unknown_option(
    where: str, name: str, known: Collection[str], groups: Mapping[str, Any] = _NO_GROUPS
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


# Signatures


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


def runs(function: Callable[..., Any]) -> Callable[[C], C]:
    """Return a decorator that runs a function in place of the decorated one.

    The decorated function only declares signature and docstring, for people, editors and type checkers. The function
    that runs gets only the arguments that the caller has passed, so it can detect an omitted option.

    Args:
        function: The function that runs.
    """

    def declare(declared: C) -> C:
        return cast("C", update_wrapper(function, declared))

    return declare


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
