"""What must not be left over: descriptors, threads, processes, warnings, and exceptions that nobody has heard of."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from child import children, descriptors


def held() -> tuple[set[str], set[int], set[str]]:
    """Return what this process holds: descriptors, child processes and threads."""
    return descriptors(), children(), {thread.name for thread in threading.enumerate()}


@contextmanager
def nothing_left() -> Iterator[Callable[[Any], object]]:
    """Hold against what was there before a block what is there after it.

    Returns:
        A context manager that gives what takes complaints of event loops: there must be none.

    Raises:
        AssertionError: Something is left over.
    """
    complaints: list[Any] = []
    before, hook = held(), sys.unraisablehook
    sys.unraisablehook = lambda unraisable: complaints.append(
        (unraisable.err_msg, unraisable.exc_value, str(unraisable.object))
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield complaints.append
            gc.collect()
    finally:
        sys.unraisablehook = hook
    assert not complaints, complaints
    after = held()
    for was, now in zip(before, after, strict=True):
        assert now <= was, f"left over: {now - was}"
