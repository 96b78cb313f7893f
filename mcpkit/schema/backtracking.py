"""Patterns that look around or refer back: an engine that goes back over the text, for so many steps and no more.

Such an engine may take time that doubles with each character. fancy-regex, which jsonschema-rs brings, counts its
steps; Python's `re` does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Final

from .._utils.concurrency import current
from ..protocol.jsonrpc import is_object
from .references import replaced

_STEPS = 32
"""Steps that a text may take for each of its characters, which are enough for all but few patterns."""

_LEAST_STEPS = 256
"""Steps that a short text may take."""

_MOST_LINEAR = 2**20
"""Steps that a long text may take: some 30 ms."""

MOST_STEPS = 100_000
"""Steps that a text may take where more are left for its call: some milliseconds."""

MOST_LONG = 20
"""Texts of one call that may take more steps than their length allows."""

_long: ContextVar[tuple[object, int]] = ContextVar("_long", default=(None, 0))
"""The request, and how many of its texts have taken more."""


ran_out: Final[ContextVar[bool]] = ContextVar("ran_out", default=False)
"""Whether a text has been refused because its steps ran out, since this was last set to False."""

_ASCII_WORD = "[0-9A-Za-z_]"
_WORD_END = f"(?:(?<={_ASCII_WORD})(?!{_ASCII_WORD})|(?<!{_ASCII_WORD})(?={_ASCII_WORD}))"


def written(pattern: str) -> str:
    """Return a pattern of `patterns.Pattern.rust` as jsonschema-rs reads it, which has other words for three things."""
    names = re.findall(r"\(\?P<(\w+)>", pattern)
    if (
        names and re.search(r"(?<!\\)\((?!\?)", pattern) is None
    ):  # no other groups: these have the first numbers
        for number, name in enumerate(names, 1):
            pattern = pattern.replace(f"(?P<{name}>", "(").replace(f"(?P={name})", rf"(?:\{number})")
    return pattern.replace(r"(?-u:\b)", _WORD_END).replace(r"(?!(?a:\b))", f"(?!{_WORD_END})")


@cache
def matcher(pattern: str) -> Callable[[str], bool] | None:
    """Return a function that matches a pattern within a limit of steps; beyond it, a text does not match.

    Args:
        pattern: A pattern in the syntax of Rust's engines.

    Returns:
        None if jsonschema-rs is missing, or does not support the pattern.
    """
    try:
        library: Any = import_module("jsonschema_rs")  # there only with the extra
    except ModuleNotFoundError:
        return None

    @cache
    def engine(steps: int) -> Any:
        options = library.FancyRegexOptions(backtrack_limit=steps)
        return library.validator_for({"pattern": pattern}, pattern_options=options)

    try:
        engine(MOST_STEPS)
    except library.ValidationError:
        return None

    def is_match(text: str) -> bool:
        # Powers of two, so that there are few engines.
        steps = min(max(_LEAST_STEPS, 1 << (_STEPS * len(text) + 1).bit_length() - 1), _MOST_LINEAR)
        try:
            does_match = _does_match(engine(steps), text)
            if does_match is None and steps < MOST_STEPS and _may_take_long():
                does_match = _does_match(engine(MOST_STEPS), text)
        except ValueError:  # half of a surrogate pair
            return False
        if does_match is None:
            ran_out.set(True)
        return bool(does_match)

    return is_match


def within_bounds(schema: Any, formats: dict[str, Callable[[str], bool]]) -> Any:
    """Return a JSON Schema in which the patterns that a linear engine does not know are formats, checked by `matcher`.

    All parts stay in their places.

    Args:
        schema: The schema.
        formats: Where the checks of these formats are put.
    """
    if not is_object(schema):
        return schema
    bounded = replaced(schema, lambda _, inner: within_bounds(inner, formats))
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or _is_linear(pattern) or (is_match := matcher(pattern)) is None:
        return bounded
    del bounded["pattern"]
    name = f"pattern {pattern}"
    formats[name] = is_match
    return bounded | {"allOf": [*bounded.get("allOf", ()), {"format": name}]}


@cache
def _is_linear(pattern: str) -> bool:
    library: Any = import_module("jsonschema_rs")
    try:
        library.validator_for({"pattern": pattern}, pattern_options=library.RegexOptions())
    except library.ValidationError:
        return False
    return True


def _does_match(engine: Any, text: str) -> bool | None:
    """Return whether a text matches; None if the limit of steps was reached."""
    if engine.is_valid(text):
        return True
    error = next(engine.iter_errors(text))
    return None if type(error.kind).__name__ == "BacktrackLimitExceeded" else False


def _may_take_long() -> bool:
    """Return whether one more text of the call may take long, and count it."""
    ctx = current.get(None)
    counted, count = _long.get()
    count = count + 1 if ctx is not None and counted is ctx else 1
    _long.set((ctx, count))
    return count <= MOST_LONG
