"""Checks of JSON Schema keywords that concern a value itself, not the values inside it."""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any

from ..protocol.jsonrpc import is_array, is_object
from .equality import identity
from .formats import FORMATS
from .values import Json, decode_base64, is_unique, matches


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": is_array,
    "object": is_object,
}


def _is_base64(text: str) -> bool:
    try:
        decode_base64(text)
    except ValueError:
        return False
    return True


def _has_at_least(value: Any, limit: int) -> bool:
    return len(value) >= limit


def _has_at_most(value: Any, limit: int) -> bool:
    return len(value) <= limit


KEYWORDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", ge),
    "maximum": ("number", le),
    "exclusiveMinimum": ("number", gt),
    "exclusiveMaximum": ("number", lt),
    "multipleOf": ("number", lambda value, step: value % step == 0),
    "minLength": ("string", _has_at_least),
    "maxLength": ("string", _has_at_most),
    "pattern": ("string", lambda value, pattern: matches(pattern)(value)),
    "format": ("string", lambda value, name: name not in FORMATS or matches(FORMATS[name])(value)),
    "contentEncoding": ("string", lambda value, name: name != "base64" or _is_base64(value)),
    "minItems": ("array", _has_at_least),
    "maxItems": ("array", _has_at_most),
    "uniqueItems": ("array", lambda value, wanted: not wanted or is_unique(value)),
    "minProperties": ("object", _has_at_least),
    "maxProperties": ("object", _has_at_most),
}
"""Each keyword that is about the value alone, with the kind that it is about and what it demands."""


def fits_alone(schema: Json, value: Any) -> bool:
    """Return whether a value matches a schema, ignoring values inside it."""
    kinds = schema.get("type")
    if kinds is not None:
        allowed = [kinds] if isinstance(kinds, str) else kinds
        if not any(KINDS[kind](value) for kind in allowed):
            return False
    if "enum" in schema and identity(value) not in map(identity, schema["enum"]):
        return False
    if "const" in schema and identity(value) != identity(schema["const"]):
        return False
    return all(
        demand(value, schema[keyword])
        for keyword, (about, demand) in KEYWORDS.items()
        if keyword in schema and KINDS[about](value)
    )
