"""Functions that an author gives."""

from __future__ import annotations


def check_function(name: str, given: object, of: str, *, or_else: str = "") -> None:
    """Check that something can be called, where it is given.

    Args:
        name: What it is called.
        given: The function, or None.
        of: What it is a function of.
        or_else: What may stand in its place, such as `or a Sampler`.

    Raises:
        TypeError: It cannot be called.
    """
    if given is not None and not callable(given):
        raise TypeError(f"{name} must be a function of {of}{or_else and ', '}{or_else}, got {given!r}")
