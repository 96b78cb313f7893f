"""What must not be left over: descriptors, threads, processes, warnings, and exceptions that nobody has heard of."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.helpers.child import held


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
    left = held() - before
    assert not left, f"left over: {left}"
