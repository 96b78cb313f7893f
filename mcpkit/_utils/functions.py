"""Checks of functions that are passed as options."""

from __future__ import annotations

import inspect

from .errors import RegistrationError


def check_function(
    name: str, given: object, of: str, *, or_else: str = "", may_be_async: bool = True
) -> None:
    """Check that an option is callable.

    Args:
        name: Name of the option.
        given: The function, or None.
        of: Parameter of the function, for messages.
        or_else: Alternative type for messages, such as `or a SamplingHandler`.
        may_be_async: Whether the return value is awaited.

    Raises:
        TypeError: It is not callable, or it is async and would not be awaited.
    """
    if inspect.iscoroutinefunction(given) and not may_be_async:
        raise TypeError(f"{name} must be a function of {of} that is not async, as it is not awaited")
    if given is not None and not callable(given):
        raise TypeError(f"{name} must be a function of {of}{or_else and ', '}{or_else}, got {given!r}")


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
