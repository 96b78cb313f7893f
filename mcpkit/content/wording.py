"""What values, and the places where they stand, are called in messages."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

Steps = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_LONGEST = 60


def shown(value: Any) -> str:
    """Return a JSON value as text, shortened to some 60 characters."""
    return shortened(to_json(value, inf_nan_mode="constants", fallback=repr).decode())


def shortened(text: str) -> str:
    """Return a text, or its beginning and how long it is."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def path(steps: Steps) -> str:
    """Return where a value is, as a model reads it: `places[0].name`, on one line whatever the keys are."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = shortened(step if step.isprintable() else shown(step))
            text += f".{key}" if text else key
    return text


def unreadable(place: str, error: Exception) -> str:
    """Return what is said of a place where code of the author's has raised something; its text is for nobody else."""
    return f"{place} could not be read: {type(error).__name__} was raised; the server's log has the traceback"


def described(value: object) -> str:
    """Return what a value is called in a message, by its class."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
