"""What a docstring says: the description, and a text for each argument."""

from __future__ import annotations

import inspect

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
        description: Everything but the sections about arguments, with those about the result alike in all styles;
            None when nothing is left.
        arguments: The text of each argument that has one.
    """

    __slots__ = ("arguments", "description")

    def __init__(self, description: str | None, arguments: dict[str, str]) -> None:
        self.description = description
        self.arguments = arguments


def read(docstring: str | None) -> Documentation:
    """Take a docstring apart.

    Args:
        docstring: The `__doc__` of a function.

    Returns:
        Its parts.
    """
    if not docstring:
        return Documentation(None, {})
    text = inspect.cleandoc(docstring)
    if not any(hint in text for hint in _HINTS):
        return Documentation(text or None, {})
    from .docstring_sections import without_sections

    description, arguments = without_sections(text)
    return Documentation(description or None, arguments)
