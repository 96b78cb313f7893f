"""Functions that an author gives."""

from __future__ import annotations

import inspect


def check_function(
    name: str, given: object, of: str, *, or_else: str = "", may_be_async: bool = True
) -> None:
    """Check that something can be called, where it is given.

    Args:
        name: What it is called.
        given: The function, or None.
        of: What it is a function of.
        or_else: What may stand in its place, such as `or a Sampler`.
        may_be_async: Whether what it returns is awaited.

    Raises:
        TypeError: It cannot be called, or nobody would await it.
    """
    if inspect.iscoroutinefunction(given) and not may_be_async:
        raise TypeError(f"{name} must be a plain function of {of}, and not async: nobody awaits it")
    if given is not None and not callable(given):
        raise TypeError(f"{name} must be a function of {of}{or_else and ', '}{or_else}, got {given!r}")
