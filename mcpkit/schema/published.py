"""A schema as clients can read it: its patterns in the words of ECMA-262, and without those that it has none for."""

from __future__ import annotations

from typing import Any

from ..protocol.jsonrpc import is_array, is_object
from .mirrored import NAMED
from .references import DATA
from .values import Json

_NEGATING = {"not": ("not",), "if": ("if", "then", "else")}
"""Keywords whose schemas must not allow more than is meant, with what goes when they would."""


def published(schema: Json, *, drops: bool = True) -> Json:
    """Return a schema that allows what `schema` allows, and what only a pattern that clients cannot read forbids.

    Args:
        schema: A JSON Schema with patterns of any engine.
        drops: Whether patterns that ECMA-262 has no words for are left out, and do not stay.

    Returns:
        The very same where there is nothing to change.
    """
    result, _ = _read(schema, drops=drops)
    return schema if result == schema else result


def _read(schema: Any, *, drops: bool) -> tuple[Any, bool]:
    """Return a schema, or several, in the words of ECMA-262, and whether it allows more than before."""
    if is_array(schema):
        parts = [_read(part, drops=drops) for part in schema]
        return [part for part, _ in parts], any(is_wider for _, is_wider in parts)
    if not is_object(schema):
        return schema, False
    result: Json = {}
    wider: set[str] = set()
    for key, value in schema.items():
        written, is_wider = _member(key, value, drops=drops)
        if is_wider:
            wider.add(key)
        if written is not None or value is None:
            result[key] = written
    _widen(result, wider)
    return result, bool(wider)


def _member(key: str, value: Any, *, drops: bool) -> tuple[Any, bool]:
    if key == "pattern" and isinstance(value, str):
        pattern = _pattern(value, drops=drops)
        return pattern, pattern is None
    if key in NAMED and is_object(value):
        return _named(key, value, drops=drops)
    if key not in DATA and isinstance(value, dict | list):
        return _read(value, drops=drops)
    return value, False


def _pattern(pattern: str, *, drops: bool) -> str | None:
    from . import patterns

    known = patterns.read(pattern)
    if known is not None:
        return known.published
    patterns.warn(pattern)
    return None if drops else pattern


def _named(key: str, schemas: Json, *, drops: bool) -> tuple[Json, bool]:
    result: Json = {}
    any_is_wider = False
    for name, schema in schemas.items():
        inner, is_wider = _read(schema, drops=drops)
        any_is_wider = any_is_wider or is_wider
        written = _pattern(name, drops=drops) if key == "patternProperties" else name
        if written is None:
            any_is_wider = True
        else:
            result[written] = inner
    return result, any_is_wider


def _widen(schema: Json, wider: set[str]) -> None:
    """Change what would forbid more, now that some of a schema's parts allow more."""
    for key in wider & _NEGATING.keys():
        for other in _NEGATING[key]:
            schema.pop(other, None)
    if "oneOf" in wider:
        # Branches that only a pattern told apart may now be two at a time.
        branches = schema.pop("oneOf")
        schema.setdefault("anyOf", branches)
    if "contains" in wider:
        schema.pop("maxContains", None)
    if "patternProperties" in wider:
        for key in ("additionalProperties", "unevaluatedProperties"):
            schema.pop(key, None)
