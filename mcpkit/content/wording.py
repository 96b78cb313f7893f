"""Texts for values and their places in messages."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

Steps = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_LONGEST = 60


def shown(value: Any) -> str:
    """Return a JSON value as text, shortened to about 60 characters."""
    return shortened(to_json(value, inf_nan_mode="constants", fallback=repr).decode())


def shortened(text: str) -> str:
    """Return a text, or its beginning and its length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def path(steps: Steps) -> str:
    """Return the place of a value, such as `places[0].name`, on one line whatever the keys are."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = shortened(step if step.isprintable() else shown(step))
            text += f".{key}" if text else key
    return text


def unreadable(place: str, error: Exception) -> str:
    """Return the message for an exception of the author's code; it leaves out the exception's text."""
    return f"{place} could not be read: {type(error).__name__} was raised; the server's log has the traceback"


def described(value: object) -> str:
    """Return a value's class with an article, for messages."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
