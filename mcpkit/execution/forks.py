"""Forked child processes of a function, which end when the function ends."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

from .._utils.current import running_loop
from .._utils.ending import exit_now

generation: int = 0
"""How many forks of event loops' threads this process has come of: what answers in one ends with it."""

_is_in_loop = False


def _look() -> None:
    global _is_in_loop  # noqa: PLW0603 - of the thread that forks, which no other does meanwhile
    _is_in_loop = running_loop() is not None


def _count() -> None:
    global generation  # noqa: PLW0603 - of the process
    if _is_in_loop:
        generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=_count)


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, a child that a function has forked, as the interpreter would. It sends no response.

    Args:
        error: Exception of the function in the child, or None.
    """
    status = 0
    with suppress(BaseException):
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            if status == 1 and error.code != 1:
                print(error.code, file=sys.stderr)
        elif error is not None:
            status = 1
            traceback.print_exception(type(error), error, error.__traceback__)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    exit_now(status & 0xFF)
