"""Functions that an author gives."""

from __future__ import annotations

import inspect

from ..common.errors import RegistrationError


def check_function(
    name: str, given: object, of: str, *, or_else: str = "", may_be_async: bool = True
) -> None:
    """Check that something can be called, where it is given.

    Args:
        name: What it is called.
        given: The function, or None.
        of: What it is a function of.
        or_else: What may stand in its place, such as `or a SamplingHandler`.
        may_be_async: Whether what it returns is awaited.

    Raises:
        TypeError: It cannot be called, or nobody would await it.
    """
    if inspect.iscoroutinefunction(given) and not may_be_async:
        raise TypeError(f"{name} must be a function of {of} that is not async, as it is not awaited")
    if given is not None and not callable(given):
        raise TypeError(f"{name} must be a function of {of}{or_else and ', '}{or_else}, got {given!r}")


def check_hook(hook: object, name: str, argument: str, waits: str) -> None:
    """Refuse what cannot be called with one argument, or would have to be awaited.

    Args:
        hook: The function.
        name: What registers it, such as `on_error`.
        argument: The class of what it is called with.
        waits: What does not wait for it, in words.

    Raises:
        RegistrationError: It is no function of one argument, or it is async.
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
