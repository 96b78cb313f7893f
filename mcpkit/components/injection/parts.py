"""What a plan for hidden parameters is made of."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

Fills = tuple[tuple[str, int], ...]
"""Parameters by name, and the numbers of their values."""


class Step(NamedTuple):
    """What makes one of the values.

    Args:
        number: The number of the value.
        function: Takes hidden parameters; a reader takes the request, and a generator function has become what
            makes a context manager.
        fills: The hidden parameters by name, and the numbers of their values.
        is_reader: Whether it reads the request.
        is_generator: Whether it yields.
        name: What to call the function, where it yields.
    """

    number: int
    function: Callable[..., Any]
    fills: Fills = ()
    is_reader: bool = False
    is_generator: bool = False
    name: str = ""


class Part(NamedTuple):
    """Steps that follow each other in one place.

    Args:
        steps: The steps.
        is_in_loop: Whether they belong into the event loop, or into a thread; None for readers, at home everywhere.
    """

    steps: list[Step]
    is_in_loop: bool | None


class Plan(NamedTuple):
    """How the hidden parameters of a handler are filled.

    Args:
        parts: The steps, each after those that it depends on.
        size: How many values there are.
        fills: The handler's hidden parameters by name, and the numbers of their values.
        replaced: The overridden functions that it does without.
        takes_context: Whether something asks for the Context.
        has_closings: Whether there is something to close after the handler.
    """

    parts: list[Part]
    size: int
    fills: Fills
    replaced: set[Hashable]
    takes_context: bool
    has_closings: bool
