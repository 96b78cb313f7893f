"""Docstrings: the description, and a text for each argument."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

_HINTS = (
    "Arg",
    "Param",
    "Keyword",
    "Return",
    "Yield",
    ":arg",
    ":key",
    ":param",
    ":return",
    ":rtype",
    ":type",
    ":yield",
)
"""One of them is in each docstring with a section about arguments or the result, and in few others."""


class Documentation:
    """A docstring, taken apart.

    Args:
        description: Everything but the texts of arguments, with sections about the result alike in all styles;
            None when nothing is left.
        arguments: The text of each argument that has one.
    """

    __slots__ = ("arguments", "description")

    def __init__(self, description: str | None, arguments: dict[str, str]) -> None:
        self.description = description
        self.arguments = arguments


def read(docstring: str | None, names: Mapping[str, str | None] | None = None) -> Documentation:
    """Take a docstring apart.

    Args:
        docstring: The `__doc__` of a function.
        names: The argument that each documented name stands for; None as a value for a name that clients do not see.
            What is under any other name stays in the description. Without it, every name is an argument.

    Returns:
        Its parts.
    """
    if not docstring:
        return Documentation(None, {})
    text = inspect.cleandoc(docstring)
    if not any(hint in text for hint in _HINTS):
        return Documentation(text or None, {})
    from .docstring_sections import without_sections

    description, arguments = without_sections(text, names)
    return Documentation(description or None, arguments)
